//! `attache otlp`: a receiver of OpenTelemetry spans on this computer, which records them as hooks are recorded (`docs/otlp.md`).
//!
//! Programs export to it instead of a server: consent applies before data leaves the computer, and the computer owns the chains.

mod body;
mod receiver;
mod serving;

use std::io;
use std::net::SocketAddr;

use clap::Args;
use domain::tool::Tool;
use tokio::net::TcpListener;

use self::receiver::Receiver;
use crate::ending::Endings;
use crate::failure::{Done, Failure, FailureKind};
use crate::hook::HookFolder;
use crate::output;

/// Maximum number of concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 64;

/// Options of `attache otlp`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Address to listen on; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4318")]
    listen: SocketAddr,
    /// Accept an address that other computers can reach; they can then record events as this computer
    #[arg(long)]
    allow_remote: bool,
    /// Agent of programs whose service.name is none of the six tools
    #[arg(long, value_name = "TOOL")]
    agent: Option<Tool>,
    /// Profile that stores the server and its credentials
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = "default")]
    profile: String,
}

/// Receives until SIGINT or SIGTERM.
pub async fn run(Arguments { listen, allow_remote, agent, profile }: Arguments) -> Done {
    if !listen.ip().is_loopback() && !allow_remote {
        return Err(Failure::of(
            FailureKind::Usage,
            format!(
                "{listen} can be reached from other computers, and every program that reaches it records events as this computer: \
                 listen on 127.0.0.1 or ::1, or add --allow-remote"
            ),
        ));
    }
    let folder = HookFolder::of(&profile).ok_or_else(|| {
        Failure::not_found(format!("there is no profile {profile:?}, so no server to record on: run `attache login`"))
    })?;
    let mut endings = Endings::watch()?;
    let unbound = |error: io::Error| {
        Failure::refused(format!("cannot listen on {listen}: {error}; choose another address with --listen"))
    };
    let listener = TcpListener::bind(listen).await.map_err(unbound)?;
    let address = listener.local_addr().map_err(unbound)?;
    let receiver = Receiver::new(folder, profile.clone(), agent).map_err(Failure::caused)?;
    output::print(&format!("attache otlp receives spans at http://{address} for the profile {profile:?}"));
    let end = async {
        endings.next().await;
    };
    serving::serve(listener, receiver.router(), CONNECTIONS_MAX, end).await;
    output::print(&receiver.summary());
    Ok(())
}

//! `attache top`: a live view of the actors of one node or of all, with the keys to steer them.
//!
//! It reads and acts through the operator's API, so that each act has its role, reason and record. `snapshot` reads, `row` and `order` compute
//! the rows, `model` holds the state that `keys` changes and `view` draws, `send` carries acts out, `live` is the loop.

mod act;
mod keys;
mod live;
mod model;
mod once;
mod order;
mod prompt;
mod row;
#[cfg(test)]
mod sample;
mod screen;
mod send;
mod snapshot;
mod text;
mod view;

use std::path::PathBuf;

use app::config::Settings;
use app::host_name;
use clap::Args;
use domain::Clock;

use self::model::TopModel;
use self::order::Order;
use self::snapshot::{NodeScope, Snapshot};
use self::view::{Palette, TopView};
use super::operator_client::OperatorClient;
use commands::failure::{Done, Failure};
use commands::{output, terminal};

/// Options of `attache top`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Name of the host, or id, of the node [default: the server of this computer, with --url all nodes]
    node: Option<String>,
    /// Show all nodes
    #[arg(long, conflicts_with = "node")]
    all: bool,
    /// Number by which rows are sorted at the start
    #[arg(long, value_enum, default_value = "depth")]
    sort: Order,
    /// Show only rows with this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Print the state once and exit
    #[arg(long)]
    once: bool,
    /// Print all data as JSON (with --once)
    #[arg(long, requires = "once")]
    json: bool,
    /// URL of the operator's listener of a server, instead of the operator's socket on this computer
    #[arg(long)]
    url: Option<String>,
    #[arg(long, value_name = "FILE", requires = "url")]
    #[arg(help = "File with the token of an operator for --url [default: the variable ATTACHE_OPERATOR_TOKEN]")]
    token_file: Option<PathBuf>,
}

impl Arguments {
    /// Whether the socket of the configuration is used.
    pub fn is_local(&self) -> bool {
        self.url.is_none()
    }

    fn scope(&self) -> NodeScope {
        match &self.node {
            Some(node) => NodeScope::One(node.clone()),
            None if self.all || !self.is_local() => NodeScope::All,
            None => NodeScope::One(host_name()),
        }
    }
}

/// Shows the state until a key or signal, or once. `settings` name the socket; they are needed without `--url`.
pub async fn run(arguments: &Arguments, settings: Option<&Settings>) -> Done {
    let client = match (&arguments.url, settings) {
        (Some(url), _) => OperatorClient::at(url, arguments.token_file.as_deref())?,
        (None, Some(settings)) => OperatorClient::of(settings)?,
        (None, None) => return Err(Failure::refused("neither a configuration nor --url names the server")),
    };
    let scope = arguments.scope();
    if !arguments.once {
        let palette = Palette::new(terminal::has_colours());
        let mut model = TopModel::new(arguments.sort);
        model.filter.clone_from(&arguments.filter);
        return live::watch(&client, &scope, model, TopView::new(palette)).await;
    }
    let snapshot = Snapshot::read(&client, &scope, Clock::system().now()).await?;
    output::show(arguments.json, &snapshot.described(), || once::text(&snapshot, arguments.sort, &arguments.filter));
    Ok(())
}

//! Serves the receiver's router: axum's own loop sets no deadline for a head and no limit of connections.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Deadline for the next head on a connection; programs export their spans every few seconds.
const HEAD_DEADLINE: Duration = Duration::from_mins(1);

/// Deadline for the requests in progress at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, probably for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until `end`, then finishes the requests in progress. Connections beyond `connections_max` wait in the kernel's queue.
pub async fn serve(listener: TcpListener, router: Router, connections_max: usize, end: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(connections_max));
    let graceful = GracefulShutdown::new();
    let mut end = pin!(end);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = &mut end => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let mut connection = http1::Builder::new();
        connection.timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE);
        let connection = graceful.watch(connection.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            let _place = place;
            // Clients often abort connections, which is no error of the receiver.
            let _ = connection.await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_DEADLINE, graceful.shutdown()).await;
}

//! Copies the rows of a table to another server.

use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::Error;
use tokio::time::timeout;

use super::connection::PostgresConnection;
use super::session::no_answer;

/// Maximum wait for the next rows, and for room to send some.
const STEP_MAX: Duration = Duration::from_mins(10);

/// Rows are sent in pieces of at least this size, because each is a packet.
const PIECE_BYTES: usize = 64 * 1024;

/// Copies all rows of a table into a table of the same name and columns, in the transactions of both connections; returns their number.
/// The connections cannot be used after an error.
pub(crate) async fn copy_rows(
    from: &mut PostgresConnection,
    to: &mut PostgresConnection,
    table: &'static str,
) -> Result<u64, Error> {
    // Each server waits for the other one, so they are watched by their progress.
    let ((from, _), (to, _)) = (from.statement()?, to.statement()?);
    let (reading, writing) = (format!("COPY {table} TO STDOUT"), format!("COPY {table} FROM STDIN"));
    let mut copy = in_time(to.copy_in_raw(&writing)).await?;
    let mut rows = in_time(from.copy_out_raw(&reading)).await?;
    let mut piece = Vec::with_capacity(2 * PIECE_BYTES);
    while let Some(row) = in_time(rows.try_next()).await? {
        piece.extend_from_slice(&row);
        if piece.len() >= PIECE_BYTES {
            in_time(copy.send(piece.as_slice())).await?;
            piece.clear();
        }
    }
    if !piece.is_empty() {
        in_time(copy.send(piece.as_slice())).await?;
    }
    in_time(copy.finish()).await
}

async fn in_time<T>(step: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(STEP_MAX, step).await.unwrap_or_else(|_| Err(no_answer(STEP_MAX)))
}

//! Copies the rows of a table to another server.

use futures_util::TryStreamExt;
use sqlx::Error;

use super::connection::PostgresConnection;

/// Copies all rows of a table into a table of the same name and columns, in the transactions of both connections; returns their number.
pub(crate) async fn copy_rows(
    from: &mut PostgresConnection,
    to: &mut PostgresConnection,
    table: &'static str,
) -> Result<u64, Error> {
    // Only the writing server works until the end, so only this one is watched.
    let (from, _) = from.statement()?;
    let (to, writing) = to.statement()?;
    let copied = async {
        let mut copy = to.copy_in_raw(&format!("COPY {table} FROM STDIN")).await?;
        let copied = async {
            let mut rows = from.copy_out_raw(&format!("COPY {table} TO STDOUT")).await?;
            while let Some(bytes) = rows.try_next().await? {
                copy.send(bytes).await?;
            }
            Ok(())
        };
        match copied.await {
            Ok(()) => copy.finish().await,
            Err(error) => {
                // The first error is the reason.
                let _ = copy.abort("the rows cannot be read").await;
                Err(error)
            }
        }
    };
    writing.over(copied).await
}

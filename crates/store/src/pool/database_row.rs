//! Rows that every driver decodes.

use sqlx::FromRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::direct::DirectRow;

/// A row that every driver decodes. A struct with `#[derive(FromRow)]` is one, and a tuple of columns.
pub trait DatabaseRow:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, DirectRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<R> DatabaseRow for R where
    R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, DirectRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

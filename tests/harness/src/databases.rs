//! Tests that run on several databases, or on SQLite only: written once, as `async fn name(world: World)` or `async fn name(world:
//! &World)`.
//!
//! CONTRIBUTING.md, *Rules*, states which tests run on both. A test `name` becomes a module of that name with one test per database:
//! `name::on_sqlite`, `name::on_postgres`, and for vector searches `name::on_pgvector`. `cargo nextest run -E 'test(name)'` runs all these
//! tests. The `World` in scope has a constructor of the same name for each: `async fn on_sqlite() -> Self`, and for the others `->
//! Option<Self>`, which returns `None` if there is no such database to test on.

/// Runs each test on SQLite and on PostgreSQL.
#[macro_export]
macro_rules! on_each_database {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: $($kind:tt)+) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn body($world: $($kind)+) $body

            $crate::database_test!(on_sqlite($($kind)+));
            $crate::database_test!(on_postgres($($kind)+));
        }
    )*};
}

/// Runs each test on SQLite only.
#[macro_export]
macro_rules! on_sqlite {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: $($kind:tt)+) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn body($world: $($kind)+) $body

            $crate::database_test!(on_sqlite($($kind)+));
        }
    )*};
}

/// Runs each test on SQLite, on PostgreSQL, on PostgreSQL with pgvector, which searches vectors itself, and with the memory in a separate
/// database.
#[macro_export]
macro_rules! on_each_vector_index {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: $($kind:tt)+) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn body($world: $($kind)+) $body

            $crate::database_test!(on_sqlite($($kind)+));
            $crate::database_test!(on_postgres($($kind)+));
            $crate::database_test!(on_pgvector($($kind)+));
            $crate::database_test!(on_memory_apart($($kind)+));
        }
    )*};
}

/// One of the tests in the module of a name: calls `body` with a `World` on the database, or with a reference to it.
#[doc(hidden)]
#[macro_export]
macro_rules! database_test {
    (on_sqlite(&World)) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn on_sqlite() {
            body(&World::on_sqlite().await).await;
        }
    };
    (on_sqlite(World)) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn on_sqlite() {
            body(World::on_sqlite().await).await;
        }
    };
    ($database:ident(&World)) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $database() {
            if let Some(world) = World::$database().await {
                body(&world).await;
            }
        }
    };
    ($database:ident(World)) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $database() {
            if let Some(world) = World::$database().await {
                body(world).await;
            }
        }
    };
}

//! Laws that hold on every database: each is written once, about a `World` that stands where it is written.

/// Writes each law once and runs it on both databases.
#[macro_export]
macro_rules! laws {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident: &World) $body:block)*) => {
        $($(#[$doc])* async fn $name($world: &World) $body)*

        mod sqlite {
            use super::World;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&World::sqlite().await).await;
            })*
        }

        mod postgres {
            use super::World;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let Some(world) = World::postgres().await else { return };
                super::$name(&world).await;
            })*
        }
    };
}

/// The same of vectors, which a database with pgvector keeps twice.
#[macro_export]
macro_rules! laws_of_vectors {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident: &World) $body:block)*) => {
        $crate::laws! { $($(#[$doc])* async fn $name($world: &World) $body)* }

        mod pgvector {
            use super::World;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let Some(world) = World::pgvector().await else { return };
                super::$name(&world).await;
            })*
        }
    };
}

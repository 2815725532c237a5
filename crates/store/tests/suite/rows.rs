//! Decoding of rows.

use store::pool::query;

use crate::world::World;
use harness::on_each_database;

store::row! {
    #[derive(Debug, PartialEq)]
    struct Inner {
        id: i64,
        self_hash as "self": Option<String>,
    }
}

store::row! {
    #[derive(Debug, PartialEq)]
    struct Outer {
        name: String,
        inner: Inner,
        share: Option<f64>,
    }
}

store::row! {
    #[derive(Debug)]
    struct Named {
        name: String,
    }
}

on_each_database! {
    async fn columns_are_found_by_name_in_any_order(world: &World) {
        const SHUFFLED: &str = "SELECT CAST(0.5 AS DOUBLE PRECISION) AS share, 'x' AS self, 1 AS other,
            CAST(7 AS BIGINT) AS id, 'Ada' AS name";
        const ORDERED: &str = "SELECT 'Ada' AS name, CAST(7 AS BIGINT) AS id, CAST(NULL AS TEXT) AS self,
            CAST(NULL AS DOUBLE PRECISION) AS share";
        let outer = |hash: Option<&str>, share| Outer {
            name: "Ada".to_owned(),
            inner: Inner { id: 7, self_hash: hash.map(str::to_owned) },
            share,
        };
        for on in [store::pool::Target::from(world.store.pool()), world.store.pool().writer()] {
            assert_eq!(query(SHUFFLED).fetch_one::<Outer>(on).await.unwrap(), outer(Some("x"), Some(0.5)));
        }
        assert_eq!(query(ORDERED).fetch_one::<Outer>(world.store.pool()).await.unwrap(), outer(None, None));
    }

    async fn a_column_that_is_missing_or_of_another_type_is_named_and_its_value_is_not_shown(world: &World) {
        for (sql, column) in [("SELECT 'Ada' AS title", "name"), ("SELECT CAST(424242 AS BIGINT) AS name", "name")] {
            let error = query(sql).fetch_one::<Named>(world.store.pool()).await.map(|row| row.name).unwrap_err();
            let message = domain::reasons(&error);
            assert!(message.contains(column) && !message.contains("424242"), "{message}");
        }
    }
}

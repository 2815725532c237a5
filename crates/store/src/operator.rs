//! The changes of operators that each node follows.

use domain::Timestamp;
use domain::node_order::NodeOrder;
use domain::service_pause::ServicePause;

use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::setting::SettingOverride;

/// Overrides and pauses in force, and orders without an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorChanges {
    /// As [`Store::setting_overrides`] returns them.
    pub overrides: Vec<SettingOverride>,
    /// As [`Store::service_pauses`] returns them.
    pub pauses: Vec<ServicePause>,
    /// As [`Store::node_orders_open`] returns them.
    pub orders: Vec<NodeOrder>,
}

crate::row! {
    struct PresenceRow {
        overrides: bool,
        pauses: bool,
        orders: bool,
    }
}

impl Store {
    /// The changes to follow. It costs one statement while there are none, since every node reads them all the time.
    #[boxed]
    pub async fn operator_changes(&self, now: Timestamp) -> Result<OperatorChanges, StoreError> {
        const SQL: &str = "SELECT
            EXISTS (SELECT 1 FROM setting_overrides WHERE until IS NULL OR until > $1) AS overrides,
            EXISTS (SELECT 1 FROM service_pauses WHERE until > $1) AS pauses,
            EXISTS (SELECT 1 FROM node_orders WHERE answer IS NULL AND (node IS NOT NULL OR until > $1)) AS orders";
        let row: PresenceRow =
            query(SQL).bind(now).fetch_one(&self.pool).during(Operation::LookForChangesOfOperators).await?;
        let mut changes = OperatorChanges::default();
        if row.overrides {
            changes.overrides = self.setting_overrides(now).await?;
        }
        if row.pauses {
            changes.pauses = self.service_pauses(now).await?;
        }
        if row.orders {
            changes.orders = self.node_orders_open(now).await?;
        }
        Ok(changes)
    }
}

//! Overrides of live settings (`docs/decisions/0039-live-settings.md`).

use domain::Timestamp;
use serde_json::Value;

use crate::act::one_at_a_time;
use crate::change::Change;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::{Store, in_transaction};

/// A value that takes precedence over the configuration of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingOverride {
    /// Path of the setting, such as `actors.queue_max`.
    pub path: String,
    /// Name of the host of a node; `None` for all nodes.
    pub node: Option<String>,
    /// The value in force.
    pub value: Value,
    /// Time at which it ends; `None` until an operator removes it.
    pub until: Option<Timestamp>,
    /// Who set it.
    pub set_by: String,
}

/// The outcome of an attempt to override a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideSet {
    /// It is stored.
    Set,
    /// The setting has another override already, for the same nodes.
    Taken(SettingOverride),
}

crate::row! {
    struct OverrideRow {
        path: String,
        node: String,
        value: String,
        until: Option<Timestamp>,
        set_by: String,
    }
}

impl TryFrom<OverrideRow> for SettingOverride {
    type Error = Corrupt;

    fn try_from(row: OverrideRow) -> Result<Self, Corrupt> {
        let value = serde_json::from_str(&row.value);
        Ok(Self {
            path: row.path,
            node: (!row.node.is_empty()).then_some(row.node),
            value: value.map_err(|error| Corrupt::new("setting_overrides.value", error))?,
            until: row.until,
            set_by: row.set_by,
        })
    }
}

/// An override in force. Parameters: path, node, now.
const FIND: &str = "SELECT path, node, value, until, set_by FROM setting_overrides
    WHERE path = $1 AND node = $2 AND (until IS NULL OR until > $3)";

impl Store {
    /// The overrides in force, by path; those for all nodes precede those for one node.
    #[boxed]
    pub async fn setting_overrides(&self, now: Timestamp) -> Result<Vec<SettingOverride>, StoreError> {
        const SQL: &str = "SELECT path, node, value, until, set_by FROM setting_overrides
            WHERE until IS NULL OR until > $1 ORDER BY path, node";
        let rows: Vec<OverrideRow> =
            query(SQL).bind(now).fetch_all(&self.pool).during(Operation::ListSettingOverrides).await?;
        Ok(rows.into_iter().map(SettingOverride::try_from).collect::<Result<_, _>>()?)
    }

    /// Stores an override. With `replaces`, one that is in force is replaced.
    #[boxed]
    pub async fn setting_override(
        &self,
        new: &SettingOverride,
        replaces: bool,
        now: Timestamp,
    ) -> Result<OverrideSet, StoreError> {
        const SET: &str = "INSERT INTO setting_overrides (path, node, value, until, set_by, set_at)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (path, node) DO UPDATE SET value = $3, until = $4, set_by = $5, set_at = $6";
        let node = new.node.as_deref().unwrap_or_default();
        in_transaction!(
            &self.pool,
            |tx| {
                one_at_a_time(tx).await?;
                let row: Option<OverrideRow> =
                    query(FIND).bind(&new.path).bind(node).bind(now).fetch_optional(&mut *tx).await?;
                let old = row.map(SettingOverride::try_from).transpose().map_err(crate::row::undecodable)?;
                if let (Some(old), false) = (&old, replaces) {
                    return Ok(OverrideSet::Taken(old.clone()));
                }
                query(SET)
                    .bind(&new.path)
                    .bind(node)
                    .bind(new.value.to_string())
                    .bind(new.until)
                    .bind(&new.set_by)
                    .bind(now)
                    .execute(&mut *tx)
                    .await?;
                self.announce(tx, &Change::Others).await?;
                let before = old.map_or(Value::Null, |old| old.value);
                self.record_change(tx, (before, new.value.clone()), now).await?;
                Ok(OverrideSet::Set)
            },
            commit if |outcome| *outcome == OverrideSet::Set
        )
        .during(Operation::OverrideSetting)
        .await
    }

    /// Removes an override; `false` if there is none in force.
    #[boxed]
    pub async fn setting_override_end(
        &self,
        path: &str,
        node: Option<&str>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM setting_overrides WHERE path = $1 AND node = $2";
        let node = node.unwrap_or_default();
        in_transaction!(
            &self.pool,
            |tx| {
                one_at_a_time(tx).await?;
                let row: Option<OverrideRow> =
                    query(FIND).bind(path).bind(node).bind(now).fetch_optional(&mut *tx).await?;
                let Some(row) = row else { return Ok(false) };
                let old = SettingOverride::try_from(row).map_err(crate::row::undecodable)?;
                query(SQL).bind(path).bind(node).execute(&mut *tx).await?;
                self.announce(tx, &Change::Others).await?;
                self.record_change(tx, (old.value, Value::Null), now).await?;
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::OverrideSetting)
        .await
    }
}

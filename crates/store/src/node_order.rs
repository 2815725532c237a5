//! Orders of operators to another node (`docs/decisions/0042-orders-to-nodes.md`).

use chrono::TimeDelta;
use domain::Timestamp;
use domain::act::OperatorAct;
use domain::ids::EventId;
use domain::node_order::{ExecutedOrder, NodeOrder, OrderAnswer};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::act::one_at_a_time;
use crate::change::Change;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query};
use crate::row::limit;
use crate::{Store, in_transaction};

/// Time for which an answered order is kept.
const KEPT: TimeDelta = TimeDelta::days(1);

/// Maximum number of orders in a pass.
const OPEN_MAX: usize = 1_000;

crate::row! {
    struct OrderRow {
        id: Uuid,
        node: Option<Uuid>,
        act: String,
        dry_run: bool,
        until: Timestamp,
    }
}

crate::row! {
    struct AnswerRow {
        answer: Option<String>,
    }
}

impl TryFrom<OrderRow> for NodeOrder {
    type Error = Corrupt;

    fn try_from(row: OrderRow) -> Result<Self, Corrupt> {
        let act: OperatorAct =
            serde_json::from_str(&row.act).map_err(|error| Corrupt::new("node_orders.act", error))?;
        Ok(Self { id: row.id.into(), node: row.node.map(Into::into), act, dry_run: row.dry_run, until: row.until })
    }
}

impl Store {
    /// Adds an order and announces it.
    #[boxed]
    pub async fn node_order_add(&self, order: &NodeOrder, now: Timestamp) -> Result<(), StoreError> {
        in_transaction!(&self.pool, |tx| self.add_order(tx, order, now).await).during(Operation::AddNodeOrder).await
    }

    /// Adds an order to every node with its act, and ends a pause in the same transaction.
    #[boxed]
    pub async fn node_order_all(
        &self,
        order: &NodeOrder,
        pause: Option<EventId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        const END: &str = "DELETE FROM service_pauses WHERE id = $1";
        in_transaction!(&self.pool, |tx| {
            one_at_a_time(tx).await?;
            if let Some(pause) = pause {
                query(END).bind(pause.as_uuid()).execute(&mut *tx).await?;
            }
            self.add_order(tx, order, now).await?;
            self.record_change(tx, (json!(pause), Value::Null), now).await
        })
        .during(Operation::AddNodeOrder)
        .await
    }

    async fn add_order(&self, tx: &mut Tx<'_>, order: &NodeOrder, now: Timestamp) -> Result<(), sqlx::Error> {
        const FORGET: &str = "DELETE FROM node_orders WHERE (answer IS NOT NULL OR node IS NULL) AND until < $1";
        const ADD: &str = "INSERT INTO node_orders (id, node, act, dry_run, until) VALUES ($1, $2, $3, $4, $5)";
        query(FORGET).bind(now - KEPT).execute(&mut *tx).await?;
        query(ADD)
            .bind(order.id.as_uuid())
            .bind(order.node.map(|node| node.as_uuid()))
            .bind(json!(order.act).to_string())
            .bind(order.dry_run)
            .bind(order.until)
            .execute(&mut *tx)
            .await?;
        self.announce(tx, &Change::Others).await
    }

    /// Orders without an answer, to each node and to all, in the order of their milliseconds.
    #[boxed]
    pub async fn node_orders_open(&self, now: Timestamp) -> Result<Vec<NodeOrder>, StoreError> {
        const SQL: &str = "SELECT id, node, act, dry_run, until FROM node_orders
            WHERE answer IS NULL AND (node IS NOT NULL OR until > $1) ORDER BY id LIMIT $2";
        let rows = query(SQL).bind(now).bind(limit(OPEN_MAX)).fetch_all(&self.pool);
        let rows: Vec<OrderRow> = rows.during(Operation::ListNodeOrders).await?;
        Ok(rows.into_iter().map(NodeOrder::try_from).collect::<Result<_, _>>()?)
    }

    /// The answer to an order; `None` until there is one.
    #[boxed]
    pub async fn node_order_answer(&self, id: EventId) -> Result<Option<OrderAnswer>, StoreError> {
        const SQL: &str = "SELECT answer FROM node_orders WHERE id = $1";
        let row = query(SQL).bind(id.as_uuid()).fetch_optional(&self.pool);
        let row: Option<AnswerRow> = row.during(Operation::ReadNodeOrder).await?;
        let answer = row.and_then(|row| row.answer).map(|text| serde_json::from_str(&text)).transpose();
        Ok(answer.map_err(|error| Corrupt::new("node_orders.answer", error))?)
    }

    /// Stores the answer to an order with its act; `false` if it has one.
    #[boxed]
    pub async fn node_order_settle(
        &self,
        order: &NodeOrder,
        executed: &ExecutedOrder,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE node_orders SET answer = $2 WHERE id = $1 AND answer IS NULL";
        let recorded = self.acting(order.id, executed.act.clone());
        in_transaction!(
            &self.pool,
            |tx| {
                let answer = json!(executed.answer).to_string();
                if query(SQL).bind(order.id.as_uuid()).bind(answer).execute(&mut *tx).await? == 0 {
                    return Ok(false);
                }
                if !order.dry_run {
                    recorded.record_outcome(tx, executed.outcome, now).await?;
                }
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::SettleNodeOrder)
        .await
    }
}

//! Rows that probes return: one field for each column, in order.

use domain::Timestamp;
use uuid::Uuid;

crate::row! {
    #[derive(Clone)]
    pub(crate) struct AccountRow {
        pub(crate) user_account_id: String,
        pub(crate) plan: String,
        pub(crate) balance_cents: i64,
        pub(crate) name: Option<String>,
        pub(crate) created_at: Timestamp,
        pub(crate) person_id: Option<Uuid>,
        pub(crate) email: Option<String>,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct PersonRow {
        pub(crate) id: Uuid,
        pub(crate) email: String,
        pub(crate) name: Option<String>,
        pub(crate) account_id: Option<String>,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct IdentityRow {
        pub(crate) user_cuid: String,
        pub(crate) account_id: Option<String>,
        pub(crate) control_machine_uuid: Option<Uuid>,
        pub(crate) created_at: Timestamp,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct LinkedRow {
        pub(crate) user_cuid: String,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct KeyRow {
        pub(crate) id: Uuid,
        pub(crate) account_id: String,
        pub(crate) name: String,
        pub(crate) scopes: String,
        pub(crate) spaces: Option<String>,
        pub(crate) created_at: Timestamp,
        pub(crate) expires_at: Option<Timestamp>,
        pub(crate) last_used_at: Option<Timestamp>,
        pub(crate) revoked_at: Option<Timestamp>,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct SpentRow {
        pub(crate) events: i64,
        pub(crate) bytes: i64,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct CodeRow {
        pub(crate) device_code_hash: Vec<u8>,
        pub(crate) machine_uuid: Uuid,
        pub(crate) user_cuid: String,
        pub(crate) created_at: Timestamp,
        pub(crate) expires_at: Timestamp,
        pub(crate) state: String,
        pub(crate) account_id: Option<String>,
        pub(crate) settled_at: Option<Timestamp>,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct WaitingRow {
        pub(crate) entries: i64,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct KnownRow {
        pub(crate) machine_uuid: Uuid,
        pub(crate) user_cuid: String,
        pub(crate) account_id: Option<String>,
        pub(crate) identity_account_id: Option<String>,
        pub(crate) last_seen_at: Timestamp,
        pub(crate) log_part: i64,
        pub(crate) rule_machine_uuid: Option<Uuid>,
        pub(crate) rule_lane: Option<String>,
        pub(crate) rule_level: Option<String>,
        pub(crate) rule_set_by: Option<String>,
        pub(crate) has_held: bool,
        pub(crate) machine_paused_until: Option<Timestamp>,
        pub(crate) account_paused_until: Option<Timestamp>,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct ComputerRow {
        pub(crate) machine_uuid: Uuid,
        pub(crate) user_cuid: String,
        pub(crate) name: Option<String>,
        pub(crate) account_id: Option<String>,
        pub(crate) first_seen_at: Timestamp,
        pub(crate) last_seen_at: Timestamp,
        pub(crate) attached_at: Option<Timestamp>,
        pub(crate) attached_by: Option<Uuid>,
        pub(crate) has_secret: bool,
        pub(crate) label: Option<String>,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct RecorderRow {
        pub(crate) machine_uuid: Uuid,
        pub(crate) user_cuid: String,
        pub(crate) is_service: bool,
        pub(crate) log_part: i64,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct SessionFactsRow {
        pub(crate) session_id: Uuid,
        pub(crate) via: String,
        pub(crate) id: Uuid,
        pub(crate) email: String,
        pub(crate) name: Option<String>,
        pub(crate) account_id: Option<String>,
        pub(crate) created_at: Timestamp,
        pub(crate) last_used_at: Timestamp,
        pub(crate) expires_at: Timestamp,
    }
}

crate::row! {
    #[derive(Clone)]
    pub(crate) struct TokenFactsRow {
        pub(crate) id: Uuid,
        pub(crate) scope: String,
        pub(crate) account_id: Option<String>,
        pub(crate) person_id: Option<Uuid>,
        pub(crate) claimed_email: Option<String>,
        pub(crate) expires_at: Timestamp,
        pub(crate) rights: Option<String>,
    }
}

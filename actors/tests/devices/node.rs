//! A node: the addresses and the actors of device codes, over a store that it may share with others.

use std::time::Duration;

use actors::device::{Dependencies, DeviceCodes, DeviceSettings, StartedDevice};
use actors::jitter;
use domain::held::MachineFacts;
use domain::log_part::LogPart;
use domain::secret::CodeKey;
use domain::{Clock, Rng, Timestamp};
use store::Store;
use store::machine::{NewMachine, Register};
use supervision::{ActorSettings, Root, RootSettings, TreeExit};

pub struct Node {
    pub devices: DeviceCodes,
    root: Root,
}

impl Node {
    /// All nodes of one database share one key of short codes.
    pub async fn start(store: Store, clock: Clock, rng: Rng, codes: CodeKey) -> Self {
        let settings = ActorSettings { idle_after: Duration::from_mins(2), ..ActorSettings::default() };
        let dependencies = Dependencies {
            store,
            clock,
            rng: rng.clone(),
            codes,
            settings: DeviceSettings::default(),
            keys_per_account_max: 100,
            base_url: "http://attache.test".into(),
        };
        let devices = DeviceCodes::new(dependencies, &settings);
        let children = vec![devices.pollers().child(devices.prototype())];
        let root = Root::start(RootSettings::default(), jitter(&rng), children).await.unwrap();
        root.up().await.unwrap();
        Self { devices, root }
    }

    /// A code for this computer.
    pub async fn code(&self, machine: &MachineFacts) -> StartedDevice {
        self.devices.start(machine, Some("192.0.2.1".into()), None, None).await.unwrap().unwrap()
    }

    pub async fn end(self) {
        assert_eq!(self.root.drain(Duration::from_secs(10)).await, TreeExit::Drained);
    }
}

/// A computer that is attached to no account.
pub async fn machine(store: &Store, rng: &Rng, now: Timestamp) -> MachineFacts {
    let (machine_uuid, user_cuid) = (rng.uuid_v7(now).into(), rng.cuid2().parse().unwrap());
    let secret = domain::Digest::of(&rng.bytes::<32>()).into();
    let new = NewMachine { machine_uuid, user_cuid: &user_cuid, name: None, secret, part: LogPart::FIRST };
    assert_eq!(store.machine_register(&new, now).await.unwrap(), Register::Registered);
    store.machine_facts(machine_uuid).await.unwrap().unwrap().facts
}

/// The start time of the tests.
pub fn beginning() -> Timestamp {
    Timestamp::from_timestamp_millis(1_767_225_600_000).unwrap()
}

//! The settings in force. Reading them is one atomic load.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use domain::live::Live;
use serde_json::Value;
use store::setting::SettingOverride;

use super::config::Settings;
use super::config::reading::Layers;

type Follower = Box<dyn Fn(&Settings) + Send + Sync>;

/// The settings in force. Reading them is one atomic load.
pub struct LiveSettings {
    in_force: ArcSwap<Settings>,
    /// The configuration without overrides: its live settings as they were read last, the others as they were at the start.
    pub(super) configured: ArcSwap<Layers>,
    pub(super) overrides: ArcSwap<NodeOverrides>,
    followers: Mutex<Vec<Follower>>,
    /// All overrides of this node. Locked during a change, so that two changes follow each other.
    pub(super) change: tokio::sync::Mutex<Vec<SettingOverride>>,
}

/// The overrides of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeOverrides {
    /// Overrides in force.
    pub in_force: Vec<SettingOverride>,
    /// Overrides that do not fit the configuration of this node.
    pub left_out: Vec<SettingOverride>,
}

impl fmt::Debug for LiveSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveSettings").finish_non_exhaustive()
    }
}

impl LiveSettings {
    /// The configuration of the start.
    pub(super) fn new(configured: Layers) -> Self {
        Self {
            in_force: ArcSwap::from_pointee(configured.settings.clone()),
            configured: ArcSwap::from_pointee(configured),
            overrides: ArcSwap::default(),
            followers: Mutex::default(),
            change: tokio::sync::Mutex::default(),
        }
    }

    /// The settings in force.
    pub fn get(&self) -> Arc<Settings> {
        self.in_force.load_full()
    }

    /// The configuration without overrides, with the places of the values as they were read last.
    pub fn configured(&self) -> Arc<Layers> {
        self.configured.load_full()
    }

    /// The overrides of this node.
    pub fn overrides(&self) -> Arc<NodeOverrides> {
        self.overrides.load_full()
    }

    /// A part of the settings in force, which follows each change.
    pub fn part<T: Send + Sync + 'static>(&self, select: impl Fn(&Settings) -> T + Send + Sync + 'static) -> Live<T> {
        let part = Live::new(select(&self.get()));
        let follower = part.clone();
        self.follow(move |settings| follower.set(select(settings)));
        part
    }

    /// Calls `follower` with the settings in force, now and after each change.
    pub fn follow(&self, follower: impl Fn(&Settings) + Send + Sync + 'static) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        follower(&self.get());
        followers.push(Box::new(follower));
    }

    /// Stores the settings in force and calls the followers.
    pub(super) fn store(&self, new: Settings) {
        let followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        self.in_force.store(Arc::new(new));
        let new = self.get();
        for follower in followers.iter() {
            follower(&new);
        }
    }
}

impl NodeOverrides {
    /// The values in force by path.
    pub fn values(&self) -> BTreeMap<String, Value> {
        self.in_force.iter().map(|found| (found.path.clone(), found.value.clone())).collect()
    }
}

//! The definition of a scenario.

use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::Plan;
use crate::product::{Product, Upstream};
use crate::report::Goal;
use crate::stock::Stock;

/// What the poll of a pending code or claim may cost.
pub const POLL: Goal = Goal::CpuOf(Floor::Bare, 1.4);

/// One path through the product.
pub trait Scenario {
    /// The name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The floors that are measured in turn with it.
    fn floors(&self) -> &'static [Floor];

    /// What it should reach.
    fn goals(&self) -> Vec<Goal>;

    /// The status of a good answer. Anything else is reported, and is not counted.
    fn status(&self) -> u16;

    /// What the product forwards to.
    fn upstream(&self) -> Upstream {
        Upstream::Embedded
    }

    /// Events in the log before.
    fn log(&self, _options: &Options) -> u64 {
        0
    }

    /// Whether the options ask for what it needs.
    fn runs(&self, _options: &Options) -> bool {
        true
    }

    /// Whether requests write, so that the server owes something after its answers.
    fn writes(&self) -> bool {
        false
    }

    /// Once, before the first round: registrations and the like. `stock` is the folder with the filled log.
    fn prepare(&mut self, product: &Product, stock: Option<&Stock>, options: &Options) -> Result<()>;

    /// What is sent in one round, to the floors and then to the product.
    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan>;
}

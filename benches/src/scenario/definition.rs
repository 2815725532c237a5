//! The definition of a scenario.

use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::Plan;
use crate::product::{Product, Upstream};
use crate::report::Goal;
use crate::stock::Stock;

/// The goal of polls of pending codes and claims.
pub const POLL: Goal = Goal::CpuOf(Floor::Bare, 1.4);

/// One path through the product.
pub trait Scenario {
    /// Name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The floors that are measured in turn with it.
    fn floors(&self) -> &'static [Floor];

    fn goals(&self) -> Vec<Goal>;

    /// The expected status. Other statuses are reported and not counted.
    fn status(&self) -> u16;

    /// The statistics service of the product.
    fn upstream(&self) -> Upstream {
        Upstream::Embedded
    }

    /// Number of events in the log before the first round.
    fn log(&self, _options: &Options) -> u64 {
        0
    }

    /// Whether the options meet the requirements of the scenario.
    fn runs(&self, _options: &Options) -> bool {
        true
    }

    /// Whether requests write, so that the server has deferred work after its responses.
    fn writes(&self) -> bool {
        false
    }

    /// Prepares the product before the first round, such as registrations. `stock` is the folder with the filled log.
    fn prepare(&mut self, product: &Product, stock: Option<&Stock>, options: &Options) -> Result<()>;

    /// The requests of one round, for the floors and the product.
    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan>;
}

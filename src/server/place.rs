//! The places that a connection holds while it is open.

use tokio::sync::OwnedSemaphorePermit;

use api::addresses::Taken;

/// The places of one connection; they are free again when it is dropped.
#[derive(Debug, Default)]
pub struct Place {
    /// Its place among all connections, and the maximum number of connections.
    of_all: Option<(OwnedSemaphorePermit, usize)>,
    of_address: Taken,
}

impl Place {
    /// Takes a place of the `total` places of all connections, and a place of its address.
    pub fn new(place: Option<OwnedSemaphorePermit>, total: usize, of_address: Taken) -> Self {
        Self { of_all: place.map(|place| (place, total)), of_address }
    }

    /// Whether a quarter of all places or less is free, or the address uses more than half of its places.
    pub fn is_crowded(&self) -> bool {
        let all = self.of_all.as_ref();
        all.is_some_and(|(place, total)| place.semaphore().available_permits() <= total / 4)
            || self.of_address.is_crowded()
    }
}

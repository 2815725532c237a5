//! The states in which events are measured, and the requests of a run.
//!
//! A fast path for one state (empty log, few chains, canonical bodies, increasing ids) would show in only one row of
//! the table; the worst row counts.

use std::fmt;

use bytes::Bytes;
use domain::{Clock, Rng};
use uuid::Uuid;

use crate::event::{Chain, Event, IdSource, Ids, Machine, Members, TARGET};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::plan::{Pace, Plan};

/// A state of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Number of events in the log before the run.
    pub log: u64,
    /// Number of chains that take turns.
    pub chains: usize,
    /// Kind of event ids, also of those in the log.
    pub ids: Ids,
    /// Whether half of the bodies have shuffled members, with 1 % resends, 1 % chain conflicts, and 1 % held events.
    /// Otherwise all events are new, canonical, and continue their chain.
    pub mixed: bool,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = if self.ids == Ids::Growing { "growing" } else { "random" };
        let mix = if self.mixed { "mixed" } else { "plain" };
        write!(f, "log {}, {} chains, {ids} ids, {mix}", short(self.log), short(self.chains as u64))
    }
}

fn short(count: u64) -> String {
    match count {
        count if count >= 1_000_000 && count.is_multiple_of(1_000_000) => format!("{} M", count / 1_000_000),
        count if count >= 1_000 && count.is_multiple_of(1_000) => format!("{} k", count / 1_000),
        count => count.to_string(),
    }
}

/// The states of the table. Each number of chains and each kind of ids occurs on an empty and on a filled log.
pub fn all(options: &Options) -> Vec<State> {
    let chains = options.chains();
    let [few, many] = [chains[0], chains[chains.len() - 1]];
    let mut states = vec![plain(options, few)];
    for log in std::iter::once(0).chain(options.log.iter().copied().filter(|&log| log > 0)) {
        let of = |ids| move |&chains: &usize| State { log, chains, ids, mixed: true };
        // Folders with random ids are removed after these states; later trials use those with increasing ids.
        states.extend([few, many].iter().map(of(Ids::Random)));
        states.extend(chains.iter().map(of(Ids::Growing)));
    }
    let asked_for = |state: &State| options.state.as_ref().is_none_or(|text| state.to_string().contains(text));
    states.into_iter().filter(asked_for).collect()
}

/// The state for comparisons: an empty log, increasing ids, all events new.
pub fn plain(options: &Options, connections: usize) -> State {
    State { log: 0, chains: options.chains()[0].max(connections), ids: Ids::Growing, mixed: false }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A new event: 202.
    New,
    /// The previous event again: 202 with the same receipt.
    Resend,
    /// An event at a taken position: 409.
    Conflict,
    /// An unregistered type: 202, held.
    Held,
}

/// The requests of one connection.
#[derive(Debug, Default)]
struct Lane {
    requests: Vec<Bytes>,
    kinds: Vec<Kind>,
    /// Id of each event, with the index of its computer.
    events: Vec<(Uuid, usize)>,
}

#[derive(Debug)]
pub struct Run {
    lanes: Vec<Lane>,
}

/// The acknowledged events of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Recorded events by id, with the index of their computer.
    pub forwarded: Vec<(Uuid, usize)>,
    /// Ids of the held events.
    pub held: Vec<Uuid>,
    /// Number of answered resends.
    pub resends: u64,
    /// Number of answered conflicts.
    pub conflicts: u64,
}

impl Acknowledged {
    /// Number of responses with status 202.
    pub fn acknowledged(&self) -> u64 {
        (self.forwarded.len() + self.held.len()) as u64 + self.resends
    }
}

/// One percent of each kind.
const PERCENT: u64 = 100;

impl Run {
    /// About `count` requests over `connections` lanes. Every run requires its own `epoch`, because runs end in the
    /// middle of the chains.
    pub fn new(machines: &[Machine], connections: usize, count: usize, state: State, epoch: u64, seed: u64) -> Self {
        let machines = &machines[..state.chains.min(machines.len())];
        let connections = connections.min(machines.len()).max(1);
        let source = IdSource::until(Clock::system().now(), count as u64, state.ids, seed ^ (epoch << 32));
        let seed = |place: usize| seed ^ (epoch << 40) ^ ((place as u64) << 8);
        let lane = |first: usize| {
            let places: Vec<usize> = (first..machines.len()).step_by(connections).collect();
            let chains = places.iter().map(|&place| Chain::new(&machines[place], "memory.stored", epoch, seed(place)));
            let mut lane = Lane::default();
            lane.fill(
                chains.collect(),
                &places,
                count / connections,
                |number| number * connections + first,
                &source,
                state,
            );
            lane
        };
        Self { lanes: (0..connections).map(lane).collect() }
    }

    /// The plan for the generator.
    pub fn plan(&self, pace: Pace) -> Plan {
        Plan { pace, lanes: self.lanes.iter().map(|lane| lane.requests.clone()).collect() }
    }

    /// The acknowledged events, from the number of completed requests per lane.
    pub fn taken(&self, outcome: &Outcome) -> Acknowledged {
        let mut taken = Acknowledged::default();
        for (lane, &done) in self.lanes.iter().zip(&outcome.lanes_done) {
            for (kind, &(id, place)) in lane.kinds.iter().zip(&lane.events).take(done) {
                match kind {
                    Kind::New => taken.forwarded.push((id, place)),
                    Kind::Held => taken.held.push(id),
                    Kind::Resend => taken.resends += 1,
                    Kind::Conflict => taken.conflicts += 1,
                }
            }
        }
        taken
    }
}

impl Lane {
    fn fill(
        &mut self,
        mut chains: Vec<Chain>,
        places: &[usize],
        count: usize,
        number_of: impl Fn(usize) -> usize,
        source: &IdSource,
        state: State,
    ) {
        let rng = Rng::seeded(number_of(0) as u64);
        // Held events never reach the log, so no event may link to them: they use a separate chain per computer.
        let mut held: Vec<Chain> = chains
            .iter()
            .map(|chain| Chain::new(chain.machine(), "memory.dreamt", u64::from(u32::MAX), rng.below(u64::MAX)))
            .collect();
        for number in 0..count {
            let turn = number % chains.len();
            let (chain, place) = (&mut chains[turn], places[turn]);
            let id = source.draw(number_of(number) as u64);
            let members = if state.mixed && rng.below(2) == 1 { Members::Shuffled } else { Members::Canonical };
            let kind = match rng.below(PERCENT) {
                0 if state.mixed && !self.requests.is_empty() => Kind::Resend,
                1 if state.mixed && !chain.is_empty() => Kind::Conflict,
                2 if state.mixed => Kind::Held,
                _ => Kind::New,
            };
            let event = match kind {
                Kind::New => chain.grow(id, members),
                Kind::Conflict => chain.conflict(id, members),
                Kind::Held => held[turn].grow(id, members),
                Kind::Resend => {
                    self.again();
                    continue;
                }
            };
            self.push(kind, chain.machine(), &event, place);
        }
    }

    fn push(&mut self, kind: Kind, machine: &Machine, event: &Event, place: usize) {
        self.requests.push(machine.request("POST", TARGET, &event.body));
        self.kinds.push(kind);
        self.events.push((event.id, place));
    }

    /// Sends the last new event again, if there is one.
    fn again(&mut self) {
        if let Some(last) = self.kinds.iter().rposition(|kind| *kind == Kind::New) {
            self.requests.push(self.requests[last].clone());
            self.kinds.push(Kind::Resend);
            self.events.push(self.events[last]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use domain::Timestamp;

    use super::*;
    use crate::outcome::Answers;
    use crate::usage::Usage;

    fn moment_of(id: Uuid) -> Timestamp {
        let (seconds, nanoseconds) = id.get_timestamp().unwrap().to_unix();
        Timestamp::from_timestamp(i64::try_from(seconds).unwrap(), nanoseconds).unwrap()
    }

    fn machines(count: usize) -> Vec<Machine> {
        let rng = Rng::seeded(1);
        (0..count).map(|_| Machine::invent(&rng)).collect()
    }

    fn outcome(lanes_done: Vec<usize>) -> Outcome {
        let usage = Usage { cpu_seconds: 0.0, resident_bytes: 0, peak_bytes: 0 };
        Outcome { lanes_done, ..Outcome::of(202, Answers::of(Vec::new(), String::new()), 1.0, usage) }
    }

    #[test]
    fn a_mixed_run_has_a_percent_of_each_kind_and_counts_only_answered_requests() {
        let state = State { log: 0, chains: 40, ids: Ids::Growing, mixed: true };
        let run = Run::new(&machines(50), 8, 8_000, state, 1, 1);
        let all = run.taken(&outcome(vec![1_000; 8]));
        let answered = all.acknowledged() + all.conflicts;
        assert_eq!(answered, 8_000);
        for count in [all.held.len() as u64, all.resends, all.conflicts] {
            assert!((40..=130).contains(&count), "{count}");
        }
        let places: HashSet<usize> = all.forwarded.iter().map(|(_, place)| *place).collect();
        assert_eq!(places, (0..40).collect());
        assert_eq!(run.taken(&outcome(vec![0; 8])), Acknowledged::default());
        let some = run.taken(&outcome(vec![10, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(some.acknowledged() + some.conflicts, 10);
    }

    #[test]
    fn ids_grow_over_all_lanes_in_the_order_of_sending() {
        let state = State { log: 0, chains: 4, ids: Ids::Growing, mixed: false };
        let run = Run::new(&machines(4), 4, 4_000, state, 1, 1);
        let mut of_turn: BTreeMap<usize, Vec<Timestamp>> = BTreeMap::new();
        for lane in &run.lanes {
            for (turn, (id, _)) in lane.events.iter().enumerate() {
                of_turn.entry(turn).or_default().push(moment_of(*id));
            }
        }
        let turns: Vec<&Vec<Timestamp>> = of_turn.values().collect();
        assert!(turns.windows(2).all(|pair| pair[0].iter().max() <= pair[1].iter().min()), "lanes drift apart");
    }

    #[test]
    fn the_states_meet_every_number_of_chains_and_both_kinds_of_ids() {
        let options = Options { log: vec![1_000_000], ..Options::of(&["attache-bench"]) };
        let states = all(&options);
        for log in [0, 1_000_000] {
            for chains in options.chains() {
                assert!(states.contains(&State { log, chains, ids: Ids::Growing, mixed: true }));
            }
            assert!(states.iter().any(|state| state.log == log && state.ids == Ids::Random));
        }
        assert_eq!(states[2].to_string(), "log 0, 100 k chains, random ids, mixed");
    }
}

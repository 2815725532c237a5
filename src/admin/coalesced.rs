//! A costly check that concurrent callers share.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Timeout of the task; afterwards another one can start.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);

/// Runs a check at most once at a time and returns the last result while it is recent, for any number of callers. Clones share the results.
#[derive(Debug, Clone)]
pub(super) struct SharedProbe<T>(watch::Sender<State<T>>);

#[derive(Debug)]
struct State<T> {
    /// Start of the running task.
    begun: Option<Instant>,
    last: Option<(Instant, Result<T, String>)>,
}

/// Times for which a result is used, and the timeout of a caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) every: Duration,
    /// Time for which a failure is used; shorter, so that the end of a fault is noticed soon.
    pub(super) failed_every: Duration,
    pub(super) deadline: Duration,
}

impl<T> Default for SharedProbe<T> {
    fn default() -> Self {
        Self(watch::Sender::new(State { begun: None, last: None }))
    }
}

impl<T: Clone + Debug + Send + Sync + 'static> SharedProbe<T> {
    /// The result of `ask`, or the reason why there is none. `ask` runs in a separate task, so a dropped caller does not cancel it. If the
    /// task exceeds the deadline, every caller gets an error until the task returns.
    pub(super) async fn answer<F>(&self, pace: Pace, ask: impl FnOnce() -> F) -> Result<T, String>
    where
        F: Future<Output = Result<T, String>> + Send + 'static,
    {
        let mut begins = false;
        self.0.send_if_modified(|state| {
            let is_recent = state
                .last
                .as_ref()
                .is_some_and(|(at, answer)| at.elapsed() < if answer.is_ok() { pace.every } else { pace.failed_every });
            begins = !is_recent && state.begun.is_none();
            if begins {
                state.begun = Some(Instant::now());
            }
            begins
        });
        if begins {
            self.begin(ask());
        }
        let mut state = self.0.subscribe();
        let begun = state.borrow().begun;
        let until = begun.unwrap_or_else(Instant::now) + pace.deadline;
        let answered = tokio::time::timeout_at(until, state.wait_for(|state| state.begun.is_none())).await;
        match answered {
            Ok(Ok(state)) => state.last.as_ref().map_or_else(|| Err("no answer".into()), |(_, answer)| answer.clone()),
            // The sender is in `self`, so the channel is open.
            Ok(Err(_)) | Err(_) => Err(format!("no answer within {:?}", pace.deadline)),
        }
    }

    fn begin(&self, asking: impl Future<Output = Result<T, String>> + Send + 'static) {
        let state = self.0.clone();
        let asking = tokio::spawn(async move { tokio::time::timeout(ABANDONED_AFTER, asking).await });
        tokio::spawn(async move {
            let answer = match asking.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_elapsed)) => Err(format!("no answer within {ABANDONED_AFTER:?}")),
                Err(panicked) => Err(panicked.to_string()),
            };
            state.send_modify(|state| *state = State { begun: None, last: Some((Instant::now(), answer)) });
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const PACE: Pace =
        Pace { every: Duration::from_secs(1), failed_every: Duration::from_secs(1), deadline: Duration::from_secs(2) };

    /// Counts its calls, and returns after a delay.
    #[derive(Default)]
    struct Slow(Arc<AtomicU32>);

    impl Slow {
        fn ask(&self, takes: Duration) -> impl Future<Output = Result<u32, String>> + Send + 'static + use<> {
            let calls = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                tokio::time::sleep(takes).await;
                Ok(calls)
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_one_question_a_second() {
        let (coalesced, slow) = (SharedProbe::default(), Slow::default());
        let ask = async || coalesced.answer(PACE, || slow.ask(Duration::from_millis(100))).await;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let (one, two, three) = tokio::join!(ask(), ask(), ask());
            assert!(one.is_ok() && one == two && two == three, "{one:?} {two:?} {three:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(slow.0.load(Ordering::SeqCst), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_asked_about_again_before_a_success_is() {
        let coalesced = SharedProbe::<u32>::default();
        let pace = Pace { every: Duration::from_secs(5), ..PACE };
        let fails = async || coalesced.answer(pace, || async { Err("away".to_owned()) }).await;
        let succeeds = async |answer| coalesced.answer(pace, move || async move { Ok(answer) }).await;
        assert!(fails().await.is_err());
        assert!(succeeds(1).await.is_err(), "the failure is recent");
        tokio::time::sleep(pace.failed_every).await;
        assert_eq!(succeeds(2).await, Ok(2));
        tokio::time::sleep(pace.failed_every * 4).await;
        assert_eq!(fails().await, Ok(2), "the success is recent");
        tokio::time::sleep(pace.failed_every).await;
        assert!(fails().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_come_is_a_failure_until_it_comes_and_is_not_asked_for_twice() {
        let (coalesced, slow) = (SharedProbe::default(), Slow::default());
        let ask = async || coalesced.answer(PACE, || slow.ask(Duration::from_secs(20))).await;
        let begun = Instant::now();
        assert_eq!(ask().await, Err("no answer within 2s".to_owned()));
        assert_eq!(begun.elapsed(), PACE.deadline);
        assert!(ask().await.is_err(), "it is still under way");
        assert_eq!(begun.elapsed(), PACE.deadline, "the deadline has passed already");
        tokio::time::sleep(Duration::from_millis(18_500)).await;
        assert_eq!((ask().await, slow.0.load(Ordering::SeqCst)), (Ok(1), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_answers_is_abandoned_and_one_that_panics_is_a_failure() {
        let coalesced = SharedProbe::<u32>::default();
        assert!(coalesced.answer(PACE, std::future::pending).await.is_err());
        tokio::time::sleep(ABANDONED_AFTER.saturating_sub(PACE.deadline) + PACE.every / 2).await;
        assert_eq!(coalesced.answer(PACE, || async { Ok(7) }).await, Err("no answer within 30s".to_owned()));
        tokio::time::sleep(PACE.every).await;
        assert_eq!(coalesced.answer(PACE, || async { Ok(7) }).await, Ok(7));
        tokio::time::sleep(PACE.every).await;
        let panics = coalesced.answer(PACE, || async { panic!("no answer") }).await;
        assert!(panics.is_err_and(|error| error.contains("panicked")));
    }
}

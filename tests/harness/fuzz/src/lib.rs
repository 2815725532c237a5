//! Fuzzing without instrumentation: every stored example of a target, and mutations of them until the time limit.
//!
//! 1. Examples are the files of `tests/corpus/<target>/`. The check gets each example unchanged.
//! 2. A mutation changes an example or random bytes: bits, bytes, words of the target's language, pieces of other examples, and its own
//!    pieces moved, repeated or left out.
//! 3. An input that makes the check panic is minimized, written to a file, and reported. Moved to `tests/corpus/<target>/`, it is
//!    checked in every later run.
//!
//! A run takes a second, with the same choices every time. With `ATTACHE_SOAK=1` it takes ten minutes, or `ATTACHE_SOAK_MINUTES`, with
//! random choices, which `ATTACHE_SEED` repeats.

#![expect(clippy::expect_used, reason = "a test whose files cannot be read fails")]

use std::cell::Cell;
use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

/// Without a soak.
const BRIEF: Duration = Duration::from_secs(1);
const SOAK_MINUTES: u64 = 10;
/// Inputs between two reads of the clock.
const CASES: u32 = 16;
/// Longer inputs find the same failures as shorter ones, but later.
const BYTES_MAX: usize = 64 * 1024;
const MUTATIONS_MAX: usize = 8;

/// Calls `check` with the examples of `target` and their mutations. `words` are tokens of the target's language.
///
/// # Panics
/// With the smallest input found on which `check` panics.
pub fn run(target: &str, words: &'static [&'static str], check: impl Fn(&[u8])) {
    let examples = examples(target);
    for (path, example) in &examples {
        let kept = catch_unwind(AssertUnwindSafe(|| check(example)));
        assert!(kept.is_ok(), "the kept example {} fails", path.display());
    }
    let (length, seed) = scale();
    eprintln!("{target}: {length:?}, ATTACHE_SEED={seed}");
    let inputs = mutated(examples.into_iter().map(|(_, example)| example).collect(), words);
    let (checked, end) = (Cell::new(0_u64), Instant::now() + length);
    for round in 0.. {
        if Instant::now() >= end {
            break;
        }
        let config = Config {
            cases: CASES,
            rng_seed: RngSeed::Fixed(seed.wrapping_add(round)),
            failure_persistence: None,
            max_shrink_iters: 4096,
            ..Config::default()
        };
        let found = TestRunner::new(config).run(&inputs, |input| {
            checked.set(checked.get() + 1);
            check(&input);
            Ok(())
        });
        match found {
            Ok(()) => {}
            Err(TestError::Fail(reason, input)) => panic!("{target}: {reason}; the input is {}", keep(target, &input)),
            Err(TestError::Abort(reason)) => panic!("{target}: {reason}"),
        }
    }
    eprintln!("{target}: {} inputs", checked.get());
}

/// Duration and seed of a run.
fn scale() -> (Duration, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a whole number"));
    if std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1") {
        let minutes = number("ATTACHE_SOAK_MINUTES").unwrap_or(SOAK_MINUTES);
        let any = || RandomState::new().build_hasher().finish();
        (Duration::from_secs(60 * minutes), number("ATTACHE_SEED").unwrap_or_else(any))
    } else {
        (BRIEF, number("ATTACHE_SEED").unwrap_or(1))
    }
}

/// The stored examples, sorted by name.
fn examples(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    // Not the folder in which this was built: build products may be shared by several checkouts.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this");
    let mut corpora = Path::new(&package).ancestors().map(|folder| folder.join("tests/corpus"));
    let folder = corpora.find(|folder| folder.is_dir()).expect("a corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file of the corpus").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no examples", folder.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a file of the corpus"))).collect()
}

/// Writes a failing input to a file.
fn keep(target: &str, input: &[u8]) -> String {
    let mut name = DefaultHasher::new();
    input.hash(&mut name);
    // The folder for temporary files is removed after the run.
    let path = Path::new("/tmp").join(format!("attache-fuzz-{target}-{:016x}", name.finish()));
    match fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(_) => format!("{input:?}"),
    }
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Word(Index, &'static str),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Move(Index, usize, Index),
    Cut(Index),
    Splice(Index, Index, Index, usize),
}

fn mutation(words: &'static [&'static str]) -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    let word = select(if words.is_empty() { &[""][..] } else { words });
    prop_oneof![
        1 => (at(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => (at(), vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        4 => (at(), word).prop_map(|(at, word)| Mutation::Word(at, word)),
        1 => (at(), 1..64_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (at(), 1..64_usize, 1..64_usize).prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        1 => (at(), 1..64_usize, at()).prop_map(|(at, length, to)| Mutation::Move(at, length, to)),
        1 => at().prop_map(Mutation::Cut),
        1 => (at(), at(), at(), 1..256_usize).prop_map(|(to, example, at, length)| Mutation::Splice(to, example, at, length)),
    ]
}

/// An example or random bytes, mutated.
fn mutated(examples: Vec<Vec<u8>>, words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let kept = select(examples.clone());
    let start = prop_oneof![9 => kept, 1 => vec(any::<u8>(), 0..256)];
    (start, vec(mutation(words), 0..MUTATIONS_MAX)).prop_map(move |(mut input, mutations)| {
        for mutation in &mutations {
            mutation.change(&mut input, &examples);
            input.truncate(BYTES_MAX);
        }
        input
    })
}

impl Mutation {
    fn change(&self, input: &mut Vec<u8>, examples: &[Vec<u8>]) {
        let place = |at: &Index, input: &[u8]| at.index(input.len() + 1);
        let piece = |at: &Index, length: usize, of: &[u8]| {
            let start = place(at, of);
            start..of.len().min(start + length)
        };
        let insert = |input: &mut Vec<u8>, at: usize, bytes: &[u8]| drop(input.splice(at..at, bytes.iter().copied()));
        match self {
            Self::Flip(at, bit) => {
                let at = place(at, input);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Set(at, byte) => {
                let at = place(at, input);
                if let Some(old) = input.get_mut(at) {
                    *old = *byte;
                }
            }
            Self::Insert(at, bytes) => {
                let at = place(at, input);
                insert(input, at, bytes);
            }
            Self::Word(at, word) => {
                let at = place(at, input);
                insert(input, at, word.as_bytes());
            }
            Self::Remove(at, length) => {
                let piece = piece(at, *length, input);
                input.drain(piece);
            }
            Self::Repeat(at, length, times) => {
                let piece = piece(at, *length, input);
                let repeated = input[piece.clone()].repeat(*times);
                insert(input, piece.end, &repeated);
            }
            Self::Move(at, length, to) => {
                let piece = piece(at, *length, input);
                let moved: Vec<u8> = input.drain(piece).collect();
                let to = place(to, input);
                insert(input, to, &moved);
            }
            Self::Cut(at) => {
                let at = place(at, input);
                input.truncate(at);
            }
            Self::Splice(to, example, at, length) => {
                let example = example.get(examples);
                let to = place(to, input);
                insert(input, to, &example[piece(at, *length, example)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_found_minimised_and_stored() {
        let found =
            catch_unwind(|| run("query", &["fault"], |input| assert!(!input.windows(5).any(|part| part == b"fault"))));
        let said = *found.unwrap_err().downcast::<String>().unwrap();
        let path = said.rsplit_once("the input is ").unwrap().1;
        assert!(fs::read(path).unwrap().windows(5).any(|part| part == b"fault"), "{said}");
        fs::remove_file(path).unwrap();
    }
}

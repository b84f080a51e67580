//! ferroid's atomic generator with 2 bits of machine and 20 of sequence: with the argument `ticker` at its own clock, else
//! at one that reads the system's for each ID. Answers as ../../c/harness.h says.
mod child;

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferroid::define_snowflake_id;
use ferroid::generator::AtomicSnowflakeGenerator;
use ferroid::time::{MonotonicClock, TimeSource};

const COUNT: usize = 262144;
const EPOCH_MS: u64 = 1_767_225_600_000;

define_snowflake_id!(
    WideId, u64,
    reserved: 1,
    timestamp: 41,
    machine_id: 2,
    sequence: 20
);

type Generator<T> = AtomicSnowflakeGenerator<WideId, T>;

struct SystemClock;

impl TimeSource<u64> for SystemClock {
    const GRANULARITY_MILLIS: u64 = 1;

    fn current_millis(&self) -> u64 {
        now_ms() as u64 - EPOCH_MS
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64 * 1000 + i64::from(now.subsec_millis())
}

fn ms_of(id: u64) -> i64 {
    ((id >> 22) + EPOCH_MS) as i64
}

fn fill<T: TimeSource<u64>>(generator: &Generator<T>, ids: &mut [u64]) {
    for id in ids.iter_mut() {
        *id = generator.next_id(|_| std::hint::spin_loop()).to_raw();
    }
}

fn take<T: TimeSource<u64>>(
    generator: &Generator<T>,
    ids: &mut [u64],
    arrived: &AtomicUsize,
    threads: usize,
) -> (Instant, Instant, i64) {
    arrived.fetch_add(1, Ordering::SeqCst);
    while arrived.load(Ordering::SeqCst) < threads {}
    let start = Instant::now();
    fill(generator, ids);
    let end = Instant::now();
    (start, end, ms_of(ids[COUNT - 1]) - now_ms())
}

fn race<T: TimeSource<u64> + Sync>(generator: &Generator<T>, threads: usize) -> String {
    let mut all = vec![0u64; COUNT * threads];
    let arrived = AtomicUsize::new(0);
    let found: Vec<(Instant, Instant, i64)> = std::thread::scope(|scope| {
        let arrived = &arrived;
        let started: Vec<_> = all
            .chunks_mut(COUNT)
            .map(|ids| scope.spawn(move || take(generator, ids, arrived, threads)))
            .collect();
        started.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let first = found.iter().map(|f| f.0).min().unwrap();
    let last = found.iter().map(|f| f.1).max().unwrap();
    let took: f64 = found.iter().map(|f| (f.1 - f.0).as_nanos() as f64).sum();
    // The time of both must be the same one to four fifths.
    let together = took > 0.8 * (last - first).as_nanos() as f64 * threads as f64;
    let ns = if together { took / threads as f64 / COUNT as f64 } else { f64::NAN };
    let ahead = found.iter().map(|f| f.2).max().unwrap().max(0);
    let old = found.iter().map(|f| -f.2).max().unwrap().max(0);
    let disorder: usize = all
        .chunks(COUNT)
        .map(|ids| ids.windows(2).filter(|w| w[0] >= w[1]).count())
        .sum();
    all.sort_unstable();
    let twins = all.windows(2).filter(|w| w[0] == w[1]).count();
    format!("{ns:.3} {twins} {disorder} {ahead} {old}")
}

/// Looks at the clock before each ID. A thread that is held up afterwards does not matter that way.
fn oldest<T: TimeSource<u64>>(generator: &Generator<T>) -> i64 {
    let end = Instant::now() + Duration::from_millis(500);
    let mut oldest = 0;
    while Instant::now() < end {
        let before_ms = now_ms();
        let mut id = [0];
        fill(generator, &mut id);
        oldest = oldest.max(before_ms - ms_of(id[0]));
    }
    oldest
}

fn age_under_load<T: TimeSource<u64> + Sync>(generator: &Generator<T>) -> String {
    let threads = 2 * std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let oldest: i64 = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(|| oldest(generator))).collect();
        started.into_iter().map(|t| t.join().unwrap()).max().unwrap()
    });
    format!("{oldest}")
}

fn fork_answer<T: TimeSource<u64>>(generator: &Generator<T>) -> String {
    let mut ours = [0u64; child::IDS];
    match child::run(|ids| fill(generator, ids), now_ms, || fill(generator, &mut ours)) {
        Some((theirs, late, late_at_ms)) => {
            let twins = theirs.iter().filter(|id| ours.contains(id)).count();
            format!("{} {twins} {}", child::IDS, late_at_ms - ms_of(late))
        }
        None => "0 0 0".to_string(),
    }
}

fn answer<T: TimeSource<u64> + Sync>(generator: &Generator<T>, what: &str) -> String {
    match what {
        "age" => age_under_load(generator),
        "fork" => fork_answer(generator),
        threads => race(generator, threads.parse().expect("NAME THREADS")),
    }
}

fn serve<T: TimeSource<u64> + Sync>(generator: &Generator<T>) {
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let (_, what) = line.split_once(' ').expect("NAME WHAT");
        println!("{}", answer(generator, what));
        io::stdout().flush().unwrap();
    }
}

fn main() {
    // One for each process: the ticker runs in every process that has ever used its clock.
    match std::env::args().nth(1).as_deref() {
        Some("ticker") => serve(&Generator::new(1, MonotonicClock::<1>::with_epoch(Duration::from_millis(EPOCH_MS)))),
        _ => serve(&Generator::new(1, SystemClock)),
    }
}

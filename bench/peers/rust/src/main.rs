//! ferroid's atomic generator with 2 bits of machine and 20 of sequence. Answers "NAME THREADS" with
//! "NS TWINS DISORDER AHEAD_MS OLD_MS": see ../../c/harness.h.
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferroid::define_snowflake_id;
use ferroid::generator::AtomicSnowflakeGenerator;
use ferroid::id::SnowflakeId;
use ferroid::time::MonotonicClock;

const COUNT: usize = 262144;
const EPOCH_MS: u64 = 1_767_225_600_000;

define_snowflake_id!(
    WideId, u64,
    reserved: 1,
    timestamp: 41,
    machine_id: 2,
    sequence: 20
);

type Generator = AtomicSnowflakeGenerator<WideId, MonotonicClock>;

fn take(generator: &Generator, ids: &mut [u64], arrived: &AtomicUsize, threads: usize) -> (Instant, Instant, i64) {
    arrived.fetch_add(1, Ordering::SeqCst);
    while arrived.load(Ordering::SeqCst) < threads {}
    let start = Instant::now();
    for id in ids.iter_mut() {
        *id = generator.next_id(|_| std::hint::spin_loop()).to_raw();
    }
    let end = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    (start, end, ((ids[COUNT - 1] >> 22) + EPOCH_MS) as i64 - now)
}

fn answer(generator: &Generator, threads: usize) -> String {
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

fn main() {
    let clock = MonotonicClock::<1>::with_epoch(Duration::from_millis(EPOCH_MS));
    let generator = Generator::new(1, clock);
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let threads = line.split(' ').nth(1).and_then(|t| t.parse().ok()).expect("NAME THREADS");
        println!("{}", answer(&generator, threads));
        io::stdout().flush().unwrap();
    }
}

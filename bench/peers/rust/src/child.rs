//! A forked child that takes IDs, as fork_answer of ../../c/harness.c.
use std::ffi::{c_int, c_uint};
use std::time::Duration;

pub const IDS: usize = 1000;

extern "C" {
    fn fork() -> c_int;
    fn pipe(ends: *mut c_int) -> c_int;
    fn read(fd: c_int, buffer: *mut u8, size: usize) -> isize;
    fn write(fd: c_int, buffer: *const u8, size: usize) -> isize;
    fn close(fd: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn _exit(status: c_int) -> !;
}

/// The child's IDs, one more that it took a tenth of a second later, and when that was; nothing if it got none.
pub fn run(fill: impl Fn(&mut [u64]), now_ms: impl Fn() -> i64, parent: impl FnOnce()) -> Option<([u64; IDS], u64, i64)> {
    let mut found = [0u64; IDS + 2];
    let size = std::mem::size_of_val(&found);
    let mut ends = [0; 2];
    unsafe {
        assert_eq!(pipe(ends.as_mut_ptr()), 0);
        let pid = fork();
        if pid == 0 {
            alarm(5); // where time stands still it may wait for ever
            fill(&mut found[..IDS]);
            std::thread::sleep(Duration::from_millis(100));
            found[IDS + 1] = now_ms() as u64;
            fill(&mut found[IDS..=IDS]);
            write(ends[1], found.as_ptr().cast(), size);
            _exit(0);
        }
        parent();
        close(ends[1]);
        let got = read(ends[0], found.as_mut_ptr().cast(), size);
        close(ends[0]);
        waitpid(pid, std::ptr::null_mut(), 0);
        (got == size as isize).then(|| (found[..IDS].try_into().unwrap(), found[IDS], found[IDS + 1] as i64))
    }
}

//! How far the demo is: a bar on a terminal, else a line now and then. Goes to stderr, as it is no result.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output;

const WIDTH: u64 = 40;

#[derive(Debug)]
pub(super) struct Progress {
    total: u64,
    done: u64,
    terminal: bool,
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn new(total: u64) -> Self {
        Progress { total, done: 0, terminal: std::io::stderr().is_terminal(), drawn: None }
    }

    pub(super) fn one_more(&mut self) {
        self.done += 1;
        if self.terminal {
            if self.drawn.is_none_or(|drawn| drawn.elapsed() > Duration::from_millis(50)) {
                self.draw();
            }
        } else if self.done.is_multiple_of(self.total.div_ceil(4)) {
            output::note(&format!("{} of {} sold", self.done, self.total));
        }
    }

    /// Says something above the bar.
    pub(super) fn note(&mut self, text: &str) {
        self.clear();
        output::note(text);
        if self.terminal {
            self.draw();
        }
    }

    pub(super) fn end(&mut self) {
        if self.terminal {
            self.draw();
            output::note("");
        }
    }

    fn draw(&mut self) {
        let full = (self.done * WIDTH / self.total).min(WIDTH);
        let bar: String = (0..WIDTH).map(|at| if at < full { '#' } else { '.' }).collect();
        drop(write!(std::io::stderr(), "\r\x1b[K[{bar}] {} of {} sold", self.done, self.total));
        self.drawn = Some(Instant::now());
    }

    fn clear(&self) {
        if self.terminal {
            drop(write!(std::io::stderr(), "\r\x1b[K"));
        }
    }
}

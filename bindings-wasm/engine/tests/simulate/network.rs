//! The connections between clients and a lock server: each takes its time, and keeps the order of what is sent on it;
//! it may be refused, stand still, or end with what is under way lost.

use std::collections::BTreeMap;
use std::io;

use lockwright_lock_server::{Connection, InMemory, Sent, Server};
use lockwright_machines::time::StoreTime;
use lockwright_wasm_engine::redis::{Action, Which};

use crate::random::{MS, Random, SECOND};

/// What the server's clock shows at the beginning, in microseconds.
const EPOCH: u64 = 1_800_000_000_000_000;

/// What comes to a client on one of its lines.
#[derive(Debug)]
pub(crate) enum News {
    Dialled,
    Bytes(Vec<u8>),
    Ended(io::ErrorKind),
}

enum Arrival {
    ToClient(Connection, News),
    ToServer(Connection, Vec<u8>),
    /// The server learns that a connection ended.
    Over(Connection),
}

struct Link {
    client: usize,
    which: Which,
    /// When the last that is under way arrives: at the server, at the client.
    last: (u64, u64),
    /// Nothing arrives before.
    still_until: u64,
    /// What arrives later is lost.
    lost_after: u64,
    /// Whether the client still has it, and the server.
    is_open: (bool, bool),
}

/// See the [module](self).
pub(crate) struct Network {
    pub(crate) server: Server,
    pub(crate) disk: InMemory,
    links: BTreeMap<Connection, Link>,
    arrivals: BTreeMap<(u64, u64), Arrival>,
    refuses_until: u64,
    /// The server does nothing before.
    still_until: u64,
    last: Connection,
    count: u64,
}

impl Network {
    pub(crate) fn new() -> Self {
        Network {
            server: Server::new(),
            disk: InMemory::default(),
            links: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            refuses_until: 0,
            still_until: 0,
            last: 0,
            count: 0,
        }
    }

    /// When the next thing arrives.
    pub(crate) fn next(&self) -> Option<u64> {
        self.arrivals.keys().next().map(|(at, _)| *at)
    }

    fn arrives(&mut self, at: u64, arrival: Arrival) {
        self.count += 1;
        self.arrivals.insert((at, self.count), arrival);
    }

    /// Does what a client's engine wants done.
    pub(crate) fn act(&mut self, now: u64, client: usize, action: Action, delay: u64) {
        match action {
            Action::Dial(which) => self.dial(now, client, which, delay),
            Action::Send(which, bytes) => {
                let Some(link) = self.link(client, which) else { return };
                self.send_up(now, link, Arrival::ToServer(link, bytes), delay);
            }
            Action::HangUp(which) => {
                let Some(link) = self.link(client, which) else { return };
                self.send_up(now, link, Arrival::Over(link), delay);
                self.links.entry(link).and_modify(|link| link.is_open.0 = false);
            }
        }
    }

    fn dial(&mut self, now: u64, client: usize, which: Which, delay: u64) {
        self.last += 1;
        let link = self.last;
        let begun = Link {
            client,
            which,
            last: (0, 0),
            still_until: self.still_until,
            lost_after: u64::MAX,
            is_open: (true, true),
        };
        self.links.insert(link, begun);
        let refused = now < self.refuses_until;
        if refused {
            self.arrives(now, Arrival::Over(link));
        }
        let news = if refused { News::Ended(io::ErrorKind::ConnectionRefused) } else { News::Dialled };
        self.send_down(now, link, news, delay);
    }

    fn link(&self, client: usize, which: Which) -> Option<Connection> {
        let is_it = |link: &Link| link.is_open.0 && link.client == client && link.which == which;
        self.links.iter().find(|(_, link)| is_it(link)).map(|(number, _)| *number)
    }

    fn send_up(&mut self, now: u64, link: Connection, arrival: Arrival, delay: u64) {
        let Some(known) = self.links.get_mut(&link) else { return };
        known.last.0 = known.last.0.max(now + delay).max(known.still_until);
        let (at, is_lost) = (known.last.0, known.last.0 > known.lost_after);
        // A connection that was cut is over for the server all the same.
        if !is_lost || matches!(arrival, Arrival::Over(_)) {
            self.arrives(at, arrival);
        }
    }

    fn send_down(&mut self, now: u64, link: Connection, news: News, delay: u64) {
        let Some(known) = self.links.get_mut(&link) else { return };
        known.last.1 = known.last.1.max(now + delay).max(known.still_until);
        let (at, is_lost) = (known.last.1, known.last.1 > known.lost_after);
        if !is_lost || matches!(news, News::Ended(_)) {
            self.arrives(at, Arrival::ToClient(link, news));
        }
    }

    /// What arrives by `now`: at the server, which answers, and, returned, at a client.
    pub(crate) fn deliver(&mut self, now: u64, random: &mut Random, bad: bool) -> Option<(Connection, News)> {
        self.links.retain(|_, link| link.is_open != (false, false));
        while let Some(first) = self.arrivals.first_entry().filter(|first| first.key().0 <= now) {
            match first.remove() {
                Arrival::ToServer(link, bytes) => {
                    let at = self.store_time(now);
                    let sent = self.server.came(link, &bytes, at, &mut self.disk).expect("a client sends commands");
                    self.answer(now, sent, random, bad);
                }
                Arrival::Over(link) => {
                    self.server.ended(link);
                    self.links.entry(link).and_modify(|link| link.is_open.1 = false);
                }
                Arrival::ToClient(link, news) => return Some((link, news)),
            }
        }
        None
    }

    /// Whose line a connection is, while it is one's; which it is no more where `news` says so.
    pub(crate) fn hears(&mut self, link: Connection, news: &News) -> Option<(usize, Which)> {
        let known = self.links.get_mut(&link).filter(|known| known.is_open.0)?;
        known.is_open.0 = !matches!(news, News::Ended(_));
        Some((known.client, known.which))
    }

    /// Whose connection it is.
    pub(crate) fn client(&self, link: Connection) -> Option<usize> {
        self.links.get(&link).map(|link| link.client)
    }

    /// What the server says comes in pieces.
    fn answer(&mut self, now: u64, sent: Vec<Sent>, random: &mut Random, bad: bool) {
        for (link, bytes) in sent.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let (first, second) = bytes.split_at(random.below(bytes.len() as u64) as usize);
            for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
                self.send_down(now, link, News::Bytes(piece.to_vec()), random.delay_if(bad));
            }
        }
    }

    pub(crate) fn store_time(&self, now: u64) -> StoreTime {
        StoreTime((EPOCH + now / 1000) as i64)
    }

    /// Something goes wrong; what, in words.
    pub(crate) fn fail(&mut self, now: u64, random: &mut Random) -> String {
        let (kind, how_long) = (random.below(8), random.below(8) * random.below(SECOND) + MS);
        let links = self.links.len() as u64;
        let some = (links > 0).then(|| *self.links.keys().nth(random.below(links) as usize).expect("one of them"));
        match (kind, some) {
            (0, _) => {
                self.refuses_until = now + how_long;
                "the server takes no connection".to_owned()
            }
            (1, _) => {
                self.server = Server::new();
                for link in self.links.keys().copied().collect::<Vec<_>>() {
                    self.cut(now, link, random);
                }
                "the server is restarted".to_owned()
            }
            (2, _) => {
                self.evict();
                "the server is begun again, with its connections".to_owned()
            }
            (3, _) => {
                self.still_until = now + how_long;
                self.links.values_mut().for_each(|link| link.still_until = self.still_until);
                format!("the server stands still for {} ms", how_long / MS)
            }
            (4, Some(link)) => {
                self.links.entry(link).and_modify(|link| link.still_until = now + how_long);
                format!("connection {link} stands still for {} ms", how_long / MS)
            }
            (_, Some(link)) => {
                self.cut(now, link, random);
                format!("connection {link} is cut")
            }
            _ => "nothing".to_owned(),
        }
    }

    /// The server learns in time that it ended, and so may the client.
    fn cut(&mut self, now: u64, link: Connection, random: &mut Random) {
        let at = now + random.below(2 * MS);
        self.links.entry(link).and_modify(|link| link.lost_after = link.lost_after.min(at));
        if random.chance(700) {
            self.arrives(at + random.delay(), Arrival::ToClient(link, News::Ended(io::ErrorKind::ConnectionReset)));
        }
        self.send_up(at, link, Arrival::Over(link), random.delay());
    }

    fn evict(&mut self) {
        let server = std::mem::take(&mut self.server);
        for link in self.links.keys() {
            server.channels(*link).for_each(|channel| self.server.listens(*link, channel));
        }
    }
}

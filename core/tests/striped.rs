//! A lock cut into segments, on every store and across several.

mod redis_servers;
mod test_stores;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright::blocking::{Blocking, Client};
use lockwright::striped::{Segment, Striped};
use lockwright::{Async, Kind};
use redis_servers::Server;
use rustix::process::Signal;
use test_stores::TestStore;

#[test]
fn any_takes_a_free_segment_by_one_request() {
    let place = TestStore::all().pop().unwrap();
    let client = place.client();
    let sale = client.striped(&place.name, 32).unwrap();
    let requests = |client: &lockwright::blocking::Client| client.metrics().round_trips;
    let _ = sale.any().unwrap().unwrap().into_guard().release().unwrap();
    let mut taken: Vec<_> = (0..31).map(|_| sale.any().unwrap().unwrap()).collect();
    let other = place.client();
    let theirs = other.striped(&place.name, 32).unwrap();
    drop(other.inspect("nothing").unwrap());
    let before = requests(&other);
    let last = theirs.any().unwrap().unwrap();
    assert_eq!(requests(&other) - before, 1);
    assert!(taken.iter().all(|segment| segment.index() != last.index()));
    assert_eq!(theirs.any_within(Some(Duration::ZERO)).unwrap_err().kind(), Kind::Timeout);
    taken.pop();
    assert!(theirs.any().unwrap().is_some());
}

#[test]
fn stock_is_sold_out_segment_by_segment_and_never_oversold() {
    for place in TestStore::all() {
        sold_by(|| place.client().striped(&place.name, 8).unwrap());
    }
}

/// Six buyers, who each have `sale` as a process of its own has it, buy all of 200.
fn sold_by(sale: impl Fn() -> Striped<Blocking>) {
    let stock: Arc<Vec<AtomicU64>> = Arc::new((0..8).map(|_| AtomicU64::new(25)).collect());
    let sold = Arc::new(AtomicU64::new(0));
    let buyers: Vec<_> = (0..6)
        .map(|_| {
            let (sale, stock, sold) = (sale(), stock.clone(), sold.clone());
            std::thread::spawn(move || {
                while let Some(segment) = sale.any().unwrap() {
                    let left = &stock[segment.index()];
                    match left.load(Ordering::Relaxed) {
                        0 => drop(segment.sold_out().unwrap()),
                        some => {
                            std::thread::yield_now();
                            left.store(some - 1, Ordering::Relaxed);
                            sold.fetch_add(1, Ordering::Relaxed);
                            let _ = segment.into_guard().release().unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    buyers.into_iter().for_each(|buyer| buyer.join().unwrap());
    assert_eq!(sold.load(Ordering::Relaxed), 200);
}

#[test]
fn the_segment_of_a_key_is_the_same_everywhere() {
    let client = TestStore::all().remove(0).client();
    let striped = client.striped("x", 32).unwrap();
    // By hand: echo -n KEY | sha1sum | cut -c1-16, modulo 32.
    for (key, index) in [("", 13), ("user:42", 9), ("订单", 9)] {
        assert_eq!(striped.index_for(key), index, "{key}");
    }
    assert_eq!(striped.for_key("user:42").name(), "x#9");
    for wrong in [0, 257] {
        assert_eq!(client.striped("x", wrong).unwrap_err().kind(), Kind::InvalidConfig);
    }
    assert_eq!(client.striped("", 2).unwrap_err().kind(), Kind::InvalidConfig);
}

#[tokio::test]
async fn tasks_take_any_too() {
    for place in TestStore::all() {
        let client = lockwright::Client::<Async>::open(Some(&place.uri), Default::default()).unwrap();
        let striped = client.striped(&place.name, 4).unwrap();
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(striped.any().await.unwrap().unwrap());
        }
        assert_eq!(striped.any_within(Some(Duration::ZERO)).await.unwrap_err().kind(), Kind::Timeout);
        for segment in held {
            let _ = segment.sold_out().await.unwrap();
        }
        assert!(striped.any().await.unwrap().is_none());
        striped.restock();
        assert!(striped.any().await.unwrap().is_some());
    }
}

/// A stock in eight segments at three stores of different kinds, as a process of its own has it.
fn at_three(places: &[TestStore], name: &str) -> Striped<Blocking> {
    let clients: Vec<Client> = places.iter().map(TestStore::client).collect();
    clients[0].striped(name, 8).unwrap().across(&clients[1..2]).unwrap().across(&clients[2..]).unwrap()
}

#[test]
fn segments_lie_with_the_stores_in_turn() {
    let places = TestStore::all();
    let name = &places[0].name;
    let (ours, theirs) = (at_three(&places, name), at_three(&places, name));
    let taken: Vec<_> = (0..8).map(|_| ours.any().unwrap().unwrap()).collect();
    for (number, place) in places.iter().enumerate() {
        let client = place.client();
        let held = |i: &usize| client.inspect(&format!("{name}#{i}")).unwrap().holder.is_some();
        let wanted: Vec<_> = (number..8).step_by(3).collect();
        assert_eq!((0..8).filter(held).collect::<Vec<_>>(), wanted, "{}", place.uri);
    }
    assert_eq!(theirs.any_within(Some(Duration::ZERO)).unwrap_err().kind(), Kind::Timeout);
    let waiting = std::thread::spawn(move || theirs.any().unwrap().unwrap().index());
    let freed = taken.into_iter().nth(4).map(|segment| (segment.index(), segment.into_guard().release().unwrap()));
    // Where it waits is one segment's queue; the others are looked at again. All but this one were dropped.
    assert!(freed.is_some() && waiting.join().unwrap() < 8);
}

#[test]
fn a_stock_at_several_stores_is_never_oversold() {
    let places = TestStore::all();
    sold_by(|| at_three(&places, &places[0].name));
}

#[test]
fn stores_that_do_not_suit_are_refused() {
    let place = TestStore::all().remove(0);
    let client = place.client();
    let two = client.striped(&place.name, 2).unwrap();
    let too_many = two.across(&[client.clone(), client.clone()]).unwrap_err();
    assert!(too_many.kind() == Kind::InvalidConfig && too_many.to_string().contains("3 stores"), "{too_many}");
    let one = std::slice::from_ref(&client);
    let twice = two.across(one).unwrap().across(one).unwrap_err();
    assert!(twice.kind() == Kind::InvalidConfig && twice.to_string().contains("3 stores"), "{twice}");
    let spring = lockwright::options::AcquireOptions { layout: Some("spring".into()), ..client.options() };
    assert_eq!(client.striped_with("x", 2, &spring).unwrap_err().kind(), Kind::Unsupported);
}

fn client(port: u16) -> Client {
    let uri = format!("redis://127.0.0.1:{port}?store_timeout=300ms");
    Client::open(Some(&uri), Default::default()).unwrap()
}

/// Six segments at three servers, of which a test breaks some.
fn at_servers(servers: &[Server; 3]) -> Striped<Blocking> {
    let [first, second, third] = servers.each_ref().map(|server| client(server.port));
    first.striped("stock", 6).unwrap().across(&[second, third]).unwrap()
}

fn servers() -> [Server; 3] {
    std::array::from_fn(|_| Server::start())
}

#[test]
fn servers_that_cannot_be_reached_are_left_out() {
    for signal in [Signal::KILL, Signal::STOP] {
        let servers = servers();
        let stock = at_servers(&servers);
        servers[1].signal(signal);
        let sell = || stock.any().unwrap().unwrap();
        let sold: Vec<_> = (0..4).map(|_| sell()).collect();
        assert!(sold.iter().all(|segment| segment.index() % 3 != 1), "{sold:?}");
        // Nothing else is left, and who waits is served by a server that lives.
        assert_eq!(stock.any_within(Some(Duration::ZERO)).unwrap_err().kind(), Kind::Timeout);
        let first = sold[0].index();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sell().index());
            drop(sold.into_iter().next());
            assert_ne!(waiting.join().unwrap() % 3, 1, "{first} was given back");
        });
    }
}

#[test]
fn who_is_left_out_is_not_asked() {
    let (server, listener) = (Server::start(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (port, dialled) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU64::new(0)));
    let counted = dialled.clone();
    std::thread::spawn(move || listener.incoming().for_each(|_| _ = counted.fetch_add(1, Ordering::SeqCst)));
    let stock = client(server.port).striped("stock", 2).unwrap().across(&[client(port)]).unwrap();
    let sell = || drop(stock.any().unwrap().unwrap().into_guard().release().unwrap());
    (0..2).for_each(|_| sell());
    let found_out = dialled.load(Ordering::SeqCst);
    (0..20).for_each(|_| sell());
    assert!(found_out > 0);
    assert_eq!(dialled.load(Ordering::SeqCst), found_out);
}

#[test]
fn a_server_that_is_back_is_asked_where_no_other_has_anything_left() {
    let servers = servers();
    let stock = at_servers(&servers);
    servers[1].signal(Signal::STOP);
    let sold: Vec<Segment<Blocking>> = (0..4).map(|_| stock.any().unwrap().unwrap()).collect();
    sold.into_iter().for_each(|segment| drop(segment.sold_out().unwrap()));
    let error = stock.any_within(Some(Duration::from_millis(100))).unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    servers[1].signal(Signal::CONT);
    assert_eq!(stock.any().unwrap().unwrap().index() % 3, 1);
}

#[test]
fn it_is_an_error_when_no_server_can_be_reached() {
    let servers = servers();
    let stock = at_servers(&servers);
    servers.iter().for_each(|server| server.signal(Signal::KILL));
    for limit in [Some(Duration::ZERO), Some(Duration::from_millis(300)), None] {
        let error = stock.any_within(limit).unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    }
}

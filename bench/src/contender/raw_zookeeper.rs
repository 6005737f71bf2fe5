//! The yardstick of ZooKeeper: an ephemeral, sequential node is created and deleted over a bare socket.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Contend;
use crate::Result;
use crate::server::address;

const FOLDER: &str = "/bench-raw";

/// Longer than other contenders take between two turns; nothing keeps the session alive meanwhile.
const SESSION_MILLIS: i32 = 60_000;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const PERSISTENT: i32 = 0;
const EPHEMERAL_SEQUENTIAL: i32 = 3;
const ALL_PERMISSIONS: i32 = 31;
const ANY_VERSION: i32 = -1;
const NODE_EXISTS: i32 = -110;

pub(super) struct ZooKeeper {
    socket: TcpStream,
    number: i32,
}

/// Numbers and texts one after another, as the server wants them.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        let mut with_length = self.int(bytes.len() as i32);
        with_length.0.extend(bytes);
        with_length
    }
}

impl ZooKeeper {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let socket = TcpStream::connect(address(url)?)?;
        socket.set_nodelay(true)?;
        let mut server = ZooKeeper { socket, number: 0 };
        let (protocol, seen, session) = (0, 0, 0);
        let hello = Body::default().int(protocol).long(seen).int(SESSION_MILLIS).long(session).bytes(&[0; 16]);
        server.exchange(&hello)?;
        match server.create(FOLDER, PERSISTENT) {
            Ok(_) => Ok(server),
            Err(error) if error.to_string() == failure(NODE_EXISTS) => Ok(server),
            Err(error) => Err(error),
        }
    }

    /// Sends a frame, and returns what is in the next one.
    fn exchange(&mut self, body: &Body) -> Result<Vec<u8>> {
        self.socket.write_all(&Body::default().bytes(&body.0).0)?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length))?];
        self.socket.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// What follows the header of the answer to a request.
    fn request(&mut self, kind: i32, path: &str, rest: impl FnOnce(Body) -> Body) -> Result<Vec<u8>> {
        self.number += 1;
        let answer = self.exchange(&rest(Body::default().int(self.number).int(kind).bytes(path.as_bytes())))?;
        let header = answer.split_first_chunk::<16>().ok_or("a short answer")?;
        match i32::from_be_bytes([header.0[12], header.0[13], header.0[14], header.0[15]]) {
            0 => Ok(header.1.to_vec()),
            code => Err(failure(code).into()),
        }
    }

    fn create(&mut self, path: &str, flags: i32) -> Result<String> {
        let anybody = |body: Body| body.int(1).int(ALL_PERMISSIONS).bytes(b"world").bytes(b"anyone");
        let made = self.request(CREATE, path, |body| anybody(body.bytes(b"")).int(flags))?;
        Ok(String::from_utf8(made.get(4..).ok_or("no path")?.to_vec())?)
    }
}

fn failure(code: i32) -> String {
    format!("the server says {code}")
}

impl Contend for ZooKeeper {
    fn pair(&mut self) -> Result<()> {
        let path = self.create(&format!("{FOLDER}/lock-"), EPHEMERAL_SEQUENTIAL)?;
        self.request(DELETE, &path, |body| body.int(ANY_VERSION))?;
        Ok(())
    }
}

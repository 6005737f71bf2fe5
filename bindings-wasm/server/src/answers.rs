//! What a client is answered, as bytes.

use lockwright_machines::protocol::Reply;
use lockwright_machines::time::StoreTime;
use lockwright_resp::wire::Commands;

/// One answer.
#[derive(Debug)]
pub(crate) enum Answer {
    Okay,
    Reply(Reply),
}

impl Answer {
    /// Seconds and microseconds.
    pub(crate) fn time(now: StoreTime) -> Self {
        let (seconds, micros) = (now.0.div_euclid(1_000_000), now.0.rem_euclid(1_000_000));
        Answer::words([seconds.to_string(), micros.to_string()])
    }

    pub(crate) fn words<const N: usize>(words: [impl Into<String>; N]) -> Self {
        Answer::Reply(Reply::List(words.into_iter().map(|word| Reply::Text(word.into())).collect()))
    }

    /// What became of listening on a channel, and on how many whoever asked listens now.
    pub(crate) fn about(what: &str, channel: &str, count: usize) -> Self {
        let (what, channel) = (Reply::Text(what.into()), Reply::Text(channel.into()));
        Answer::Reply(Reply::List(vec![what, channel, Reply::Int(count as i64)]))
    }

    pub(crate) fn refused(message: String) -> Self {
        Answer::Reply(Reply::Error { code: "ERR".into(), message })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Okay => out.extend_from_slice(b"+OK\r\n"),
            Answer::Reply(reply) => write(reply, out),
        }
    }
}

fn write(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::Int(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Text(text) => out.word(text.as_bytes()),
        Reply::List(list) => {
            out.begin(list.len());
            list.iter().for_each(|reply| write(reply, out));
        }
        Reply::Error { code, message } => {
            let line: String = format!("{code} {message}").chars().filter(|c| !c.is_control()).collect();
            out.extend_from_slice(format!("-{line}\r\n").as_bytes());
        }
        Reply::Shared(one) => write(one, out),
        // Nodes are many, and a lock server is one.
        Reply::Silent | Reply::Unsent => out.extend_from_slice(b"-ERR no such answer\r\n"),
    }
}

//! A connection on which the server answers one packet after the other.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};

use super::wire::{self, Bindings, First, Next, Prepared, Said, Values};
use crate::error::{Error, Kind};
use crate::stores::pipe::Pipe;

/// See the [module](self).
pub(super) struct Line {
    pipe: BufReader<Pipe>,
    /// The statements that the server was asked to prepare, and their numbers; none of one that it refused.
    prepared: HashMap<&'static str, Option<u32>>,
}

/// What a connection is asked.
#[derive(Debug)]
pub(super) enum Question {
    /// Statements, one behind the other with a `;` between them.
    Text(String),
    /// One that answers with no rows, is asked again and again and thus is prepared, and what it is given. Where the
    /// server does not prepare it (it has a limit), nothing is changed: whoever asks has another way.
    Prepared(&'static str, Bindings),
}

/// What a statement comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// So many rows were changed, and what `LAST_INSERT_ID` was given meanwhile.
    Changed {
        rows: u64,
        number: u64,
    },
    Rows(Vec<Values>),
}

/// What the statements of a packet come to: as many answers as there are, and what the server refused behind them.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) all: Vec<Answer>,
    pub(super) refused: Option<Said>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Broken {
    Connection(io::Error),
    /// What came is none.
    Garbled(Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Broken::Connection(error)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Broken::Garbled(error)
    }
}

impl From<String> for Question {
    fn from(statements: String) -> Self {
        Question::Text(statements)
    }
}

impl Line {
    /// One on which the server waits for what is asked.
    pub(super) fn over(pipe: BufReader<Pipe>) -> Self {
        Line { pipe, prepared: HashMap::new() }
    }

    /// What comes of it.
    pub(super) async fn ask(&mut self, question: &Question) -> Result<Answers, Broken> {
        match question {
            Question::Text(statements) => self.say(statements).await,
            Question::Prepared(statement, bindings) => self.execute(statement, bindings).await,
        }
    }

    async fn execute(&mut self, statement: &'static str, bindings: &Bindings) -> Result<Answers, Broken> {
        let Some(number) = self.prepare(statement).await? else {
            return Ok(Answers { all: vec![Answer::Changed { rows: 0, number: 0 }], refused: None });
        };
        write(self.pipe.get_mut(), 0, &wire::execute(number, bindings)).await?;
        self.answers().await
    }

    /// The number that the server gave the statement.
    async fn prepare(&mut self, statement: &'static str) -> Result<Option<u32>, Broken> {
        if let Some(known) = self.prepared.get(statement) {
            return Ok(*known);
        }
        write(self.pipe.get_mut(), 0, &wire::prepare(statement)).await?;
        let number = match wire::prepared(&read(&mut self.pipe).await?.1)? {
            Ok(Prepared { number, more }) => {
                for _ in 0..more {
                    read(&mut self.pipe).await?;
                }
                Some(number)
            }
            Err(_) => None,
        };
        self.prepared.insert(statement, number);
        Ok(number)
    }

    /// What `statements`, one behind the other with a `;` between them, come to.
    pub(super) async fn say(&mut self, statements: &str) -> Result<Answers, Broken> {
        write(self.pipe.get_mut(), 0, &wire::query(statements)).await?;
        self.answers().await
    }

    async fn answers(&mut self) -> Result<Answers, Broken> {
        let mut all = Vec::new();
        let refused = loop {
            let (_, packet) = read(&mut self.pipe).await?;
            let more = match wire::first(&packet)? {
                First::Refused(said) => break Some(said),
                First::Done { affected: rows, number, more } => {
                    all.push(Answer::Changed { rows, number });
                    more
                }
                First::Columns(columns) => match self.rows(columns).await? {
                    Ok((rows, more)) => {
                        all.push(Answer::Rows(rows));
                        more
                    }
                    Err(said) => break Some(said),
                },
            };
            if !more {
                break None;
            }
        };
        Ok(Answers { all, refused })
    }

    async fn rows(&mut self, columns: u64) -> Result<Result<(Vec<Values>, bool), Said>, Broken> {
        for _ in 0..=columns {
            read(&mut self.pipe).await?;
        }
        let mut rows = Vec::new();
        loop {
            match wire::next(&read(&mut self.pipe).await?.1, columns)? {
                Next::Row(row) => rows.push(row),
                Next::End { more } => return Ok(Ok((rows, more))),
                Next::Refused(said) => return Ok(Err(said)),
            }
        }
    }

    /// Ends when the connection does, or says what nobody asked for, as it does before that.
    pub(super) async fn ended(&mut self) {
        // Whatever it is.
        let _ = self.pipe.fill_buf().await;
    }

    /// Whether the server still waits for what is asked next. One that ended the connection has said so.
    pub(super) async fn is_idle(&mut self) -> bool {
        if !self.pipe.buffer().is_empty() {
            return false;
        }
        let mut byte = [0];
        let mut into = ReadBuf::new(&mut byte);
        poll_fn(|context| Poll::Ready(Pin::new(&mut self.pipe).poll_read(context, &mut into).is_pending())).await
    }
}

/// How a packet begins.
pub(super) struct Head {
    pub(super) length: usize,
    pub(super) number: u8,
}

pub(super) async fn read_head(from: &mut (impl AsyncRead + Unpin)) -> Result<Head, Broken> {
    let mut head = [0; 4];
    from.read_exact(&mut head).await?;
    let [low, middle, high, number] = head;
    Ok(Head { length: u32::from_le_bytes([low, middle, high, 0]) as usize, number })
}

/// The next packet's number and payload.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<(u8, Vec<u8>), Broken> {
    let head = read_head(from).await?;
    let number = head.number;
    Ok((number, read_rest(from, head).await?))
}

pub(super) async fn read_rest(
    from: &mut (impl AsyncRead + Unpin),
    Head { length, .. }: Head,
) -> Result<Vec<u8>, Broken> {
    if length == wire::LONGEST {
        return Err(wire::garbled().into());
    }
    // A length is believed as far as bytes come.
    let mut payload = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut payload).await?;
    if read < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(payload)
}

pub(super) async fn write(
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    number: u8,
    payload: &[u8],
) -> Result<(), Broken> {
    let length = u32::try_from(payload.len()).ok().filter(|length| (*length as usize) < wire::LONGEST);
    let length = length.ok_or_else(|| {
        let message = "a record is longer than MySQL takes in one packet, 16 MiB; have fewer wait in one fair queue";
        Broken::Garbled(Error::new(Kind::Unsupported, "connect", message))
    })?;
    let [low, middle, high, _] = length.to_le_bytes();
    let packet = [&[low, middle, high, number], payload].concat();
    to.write_all(&packet).await?;
    to.flush().await?;
    Ok(())
}

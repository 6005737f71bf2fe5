//! What a client says, as commands.

use std::sync::Arc;

use lockwright_machines::cell_layout;
use lockwright_machines::name::MAX_BYTES;
use lockwright_machines::protocol::{Arg, Request};
use lockwright_resp::Value;
use lockwright_resp::input::Input;

/// The longest key: a prefix and a name.
const MAX_KEY: usize = 2 * MAX_BYTES;

/// The longest name of a channel: those of inboxes have 20 bytes.
const MAX_CHANNEL: usize = 64;

/// The longest argument: what a holder shows of itself is the longest of ours, with some 600 bytes.
const MAX_ARGUMENT: usize = 4096;

/// What came is no command, or not all of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled;

/// One command.
#[derive(Debug)]
pub(crate) enum Command {
    /// Something that makes no difference here.
    Courtesy,
    Time,
    /// What the server says of itself: nothing.
    Said,
    Ping,
    Subscribe(Arc<str>),
    Unsubscribe(Arc<str>),
    /// How many listen on a channel.
    Listeners(Arc<str>),
    Request(Request),
    /// It is answered by an error that says this.
    Refused(String),
}

/// The commands that `bytes` are, each of them whole.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Command>, Garbled> {
    let (mut input, mut commands) = (Input::default(), Vec::new());
    input.brought(bytes);
    while let Some(value) = input.value().map_err(|_| Garbled)? {
        commands.push(command(value)?);
    }
    if input.is_empty() { Ok(commands) } else { Err(Garbled) }
}

fn command(value: Value) -> Result<Command, Garbled> {
    let Value::Array(parts) = value else { return Err(Garbled) };
    let word = |part: Value| match part {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| Garbled),
        _ => Err(Garbled),
    };
    let words = parts.into_iter().map(word).collect::<Result<Vec<_>, _>>()?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["CLIENT", ..] => Command::Courtesy,
        ["TIME"] => Command::Time,
        ["INFO", ..] => Command::Said,
        ["PING"] => Command::Ping,
        ["SUBSCRIBE", channel] if channel.len() > MAX_CHANNEL => refused("the name of a channel is too long"),
        ["SUBSCRIBE", channel] => Command::Subscribe(channel.into()),
        ["UNSUBSCRIBE", channel] => Command::Unsubscribe(channel.into()),
        ["listeners", _, channel] => Command::Listeners(channel.into()),
        ["AUTH", ..] => refused("there are no passwords here; leave user and password out of the address"),
        ["SELECT", ..] => refused("there are no databases here; leave the path out of the address"),
        [name, key, ref args @ ..] => match cell_layout::call(name) {
            Some(_) if key.is_empty() || key.len() > MAX_KEY => refused("the name of a lock is empty or too long"),
            Some(_) if args.iter().any(|arg| arg.len() > MAX_ARGUMENT) => refused("an argument is too long"),
            Some(call) => {
                let args = args.iter().map(|arg| Arg::Text((*arg).into())).collect();
                Command::Request(Request { call, key: key.into(), args })
            }
            None => unknown(name),
        },
        [name] => unknown(name),
        [] => return Err(Garbled),
    })
}

fn refused(message: &str) -> Command {
    Command::Refused(message.into())
}

fn unknown(name: &str) -> Command {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    refused(&format!("this lock server does not know the command `{shown}`"))
}

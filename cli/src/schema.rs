use clap::Args;
use lockwright::{Error, Result};

use crate::args::{Named, StoreArgs};
use crate::exit;
use crate::output;

/// Prints what has to be made in a database before its first lock, or makes it.
#[derive(Debug, Args)]
#[command(
    after_help = "Whoever may make tables runs it once; programs that use locks need no more rights than the printed text says. \
    What is there already stays as it is.\n\n\
    Example: lockwright schema postgres://admin@localhost/app --apply"
)]
pub(crate) struct Schema {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Make it, instead of printing it
    #[arg(long)]
    apply: bool,
}

impl Schema {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        let Some(text) = client.schema() else {
            let message = "this store needs nothing made before its first lock";
            return Err(Error::unsupported("schema", message).on_store(client.address()));
        };
        if self.apply {
            client.make_schema()?;
            output::line(&format!("{}: made", output::plain(client.address())));
        } else {
            output::line(text.trim_end());
        }
        Ok(exit::OK)
    }
}

//! Barriers beside `native`: the rules of [`lockwright_machines::barrier_cell`] on [rows](super::gate_rows).

use std::time::Duration;

use lockwright_machines::barrier_cell::{BarrierCell, BarrierStorage, Fate, Party, Passage};
use lockwright_machines::barrier_machine::Procedure;
use lockwright_machines::cell::Runs;
use lockwright_machines::engine::RecordKind;
use lockwright_machines::lock_cell::Surroundings;

use super::gate_rows::{Gate, Rows, by_the_wall, read_waiter};
use super::native_rows::{execute, unreadable};
use crate::protocol::{AttemptId, Reply};
use crate::time::StoreTime;
use crate::token::Token;

/// The places that are over, where the clock, its time and the time by the wall clock are the second to fourth
/// parameters. Each part is a range of the index, so those that stand cost nothing, however many they are.
macro_rules! over {
    () => {
        "SELECT seq FROM places WHERE key = ?1 AND clock = ?2 AND ends <= ?3 \
         UNION ALL SELECT seq FROM places WHERE key = ?1 AND clock < ?2 AND ends_wall <= ?4 \
         UNION ALL SELECT seq FROM places WHERE key = ?1 AND clock > ?2 AND ends_wall <= ?4"
    };
}

/// Runs one request on its row, if there is one.
pub(super) fn run(
    mut rows: Rows<'_>,
    around: &mut Surroundings<'_>,
    gate: Option<Gate>,
    procedure: Procedure,
) -> rusqlite::Result<(Reply, Option<Gate>)> {
    let known = |Gate { count, generation, goes, .. }: Gate| {
        let generation = u64::try_from(generation).map_err(|_| unreadable(2, "a generation"))?;
        Ok::<_, rusqlite::Error>(BarrierCell { parties: count, generation, goes })
    };
    let mut cell = gate.map(known).transpose()?.unwrap_or_default();
    let before = cell;
    let reply = cell.run(procedure, &mut rows, around)?;
    let BarrierCell { parties, generation, goes } = cell;
    let generation = i64::try_from(generation).unwrap_or(i64::MAX);
    let after = Gate { kind: RecordKind::Barrier, count: parties, generation, goes };
    Ok((reply, if cell == before { gate } else { Some(after) }))
}

impl BarrierStorage for Rows<'_> {
    type Error = rusqlite::Error;

    fn recall(&mut self, attempt: AttemptId, now: StoreTime) -> rusqlite::Result<Option<Fate>> {
        let known = Rows::recall(self, attempt, now)?;
        Ok(known
            .map(|passage| passage.map_or(Fate::Left, |n| Fate::Passed(Passage::of(Token::new(n.cast_unsigned()))))))
    }

    fn remember(&mut self, attempt: AttemptId, fate: Fate, until: StoreTime, now: StoreTime) -> rusqlite::Result<()> {
        let passage = match fate {
            Fate::Passed(passage) => Some(passage.token().n.cast_signed()),
            Fate::Left => None,
        };
        Rows::remember(self, attempt, passage, until, now)
    }

    fn end(&mut self, now: StoreTime) -> rusqlite::Result<()> {
        let sql = concat!("DELETE FROM places WHERE key = ?1 AND seq IN (", over!(), ")");
        execute(self.db, sql, (self.key, self.env.clock, now.0, by_the_wall(self.env, now))).map(|_| ())
    }

    fn stands(&mut self, attempt: AttemptId) -> rusqlite::Result<bool> {
        self.db
            .prepare_cached("SELECT 1 FROM places WHERE key = ?1 AND attempt = ?2")?
            .exists((self.key, attempt.to_string()))
    }

    fn count(&mut self, now: StoreTime) -> rusqlite::Result<u32> {
        let sql = concat!("SELECT count(*) - (SELECT count(*) FROM (", over!(), ")) FROM places WHERE key = ?1");
        self.db
            .prepare_cached(sql)?
            .query_row((self.key, self.env.clock, now.0, by_the_wall(self.env, now)), |row| row.get(0))
    }

    fn stand(&mut self, party: &Party) -> rusqlite::Result<()> {
        let sql = "INSERT INTO places (key, seq, attempt, inbox, ends, clock, ends_wall, memory) VALUES \
                   (?1, (SELECT coalesce(max(seq), 0) + 1 FROM places WHERE key = ?1), ?2, ?3, ?4, ?5, ?6, ?7) \
                   ON CONFLICT (key, attempt) DO UPDATE SET inbox = ?3, ends = ?4, clock = ?5, ends_wall = ?6, memory = ?7";
        let memory = i64::try_from(party.memory.as_micros()).unwrap_or(i64::MAX);
        let (ends, ends_wall) = (party.ends.0, by_the_wall(self.env, party.ends));
        let (attempt, inbox) = (party.attempt.to_string(), party.inbox.0.cast_signed());
        execute(self.db, sql, (self.key, attempt, inbox, ends, self.env.clock, ends_wall, memory)).map(|_| ())
    }

    fn leave(&mut self, attempt: AttemptId) -> rusqlite::Result<()> {
        let of = (self.key, attempt.to_string());
        execute(self.db, "DELETE FROM places WHERE key = ?1 AND attempt = ?2", of).map(|_| ())
    }

    fn take(&mut self) -> rusqlite::Result<Vec<Party>> {
        let mut statement =
            self.db.prepare_cached("SELECT attempt, inbox, ends, memory FROM places WHERE key = ?1 ORDER BY seq")?;
        let all = statement.query_map([self.key], |row| {
            let (attempt, inbox) = read_waiter(row)?;
            let memory: u64 = row.get::<_, i64>(3)?.try_into().map_err(|_| unreadable(3, "a time"))?;
            Ok(Party { attempt, inbox, ends: StoreTime(row.get(2)?), memory: Duration::from_micros(memory) })
        })?;
        let all = all.collect::<rusqlite::Result<Vec<_>>>()?;
        execute(self.db, "DELETE FROM places WHERE key = ?1", [self.key])?;
        Ok(all)
    }

    fn clear(&mut self) -> rusqlite::Result<()> {
        Rows::clear(self)
    }
}

#[cfg(test)]
mod tests {
    use lockwright_machines::barrier_cell::Arrive;
    use lockwright_machines::engine;
    use lockwright_machines::lock_cell::Claimant;
    use rusqlite::Connection;

    use super::super::gate_rows::tests::env;
    use super::super::native_rows::tests::file;
    use super::super::record_rows::{self, Env, Pushes};
    use super::*;
    use crate::protocol::InboxId;

    const TTL: Duration = Duration::from_micros(20);
    const MEMORY: Duration = Duration::from_micros(90);

    fn ask(db: &Connection, env: &Env<'_>, procedure: &Procedure) -> rusqlite::Result<(Reply, Pushes)> {
        record_rows::run_procedure(db, env, "k", engine::Procedure::Barrier(procedure.clone()))
    }

    fn arrive(n: u64, wait: bool, parties: u32) -> Procedure {
        let asker = Claimant { attempt: AttemptId(n.into()), inbox: InboxId(n), claim: Duration::ZERO };
        let not_after = StoreTime(i64::MAX);
        Procedure::Arrive(Arrive { asker, not_after, wait, ttl: TTL, parties, memory: MEMORY })
    }

    fn reply(db: &Connection, env: &Env<'_>, procedure: &Procedure) -> Vec<i64> {
        match ask(db, env, procedure).unwrap().0 {
            Reply::List(list) => list.iter().map(number).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn number(reply: &Reply) -> i64 {
        match reply {
            Reply::Int(number) => *number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn on_another_clock_a_place_goes_by_the_wall_clock() {
        let db = file();
        let stands = |now, count| vec![1, now, count];
        assert_eq!(
            reply(&db, &Env { wall: 1_000, ..env(5_000_000, "one") }, &arrive(1, true, 3)),
            stands(5_000_000, 1)
        );
        assert_eq!(reply(&db, &Env { wall: 1_019, ..env(7, "other") }, &arrive(2, true, 3)), stands(7, 2));
        // The first one's is over; the second one's is not, for either of them.
        assert_eq!(
            reply(&db, &Env { wall: 1_020, ..env(5_000_020, "one") }, &arrive(3, true, 3)),
            stands(5_000_020, 2)
        );
        let third = Env { wall: 1_038, ..env(26, "other") };
        assert_eq!(reply(&db, &third, &arrive(4, true, 3)), vec![3, 2, 2]);
        // What became of one is known to the others' clocks too.
        assert_eq!(reply(&db, &Env { wall: 1_038, ..env(5_000_038, "one") }, &arrive(2, true, 3)), vec![3, 0, 2]);
    }

    #[test]
    fn a_place_that_is_over_by_the_wall_clock_is_not_counted_on_another_clock() {
        let db = file();
        let boots = [("one", 1_000_i64), ("other", 1_025), ("one", 1_050)];
        for (n, (boot, wall)) in (1u64..).zip(boots) {
            let now = wall * if boot == "one" { 5_000 } else { 1 };
            let env = Env { wall: wall.cast_unsigned(), ..env(now, boot) };
            assert_eq!(reply(&db, &env, &arrive(n, true, 3)), [1, now, 1], "{boot} {wall}");
        }
    }
}

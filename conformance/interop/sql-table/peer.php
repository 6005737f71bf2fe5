<?php
// A program with a lock table of its own, in the statements that tutorials give: to insert the row is to have the lock, to delete
// it is to give it back.

require __DIR__ . '/../../shims/php_peer.php';
require __DIR__ . '/../../shims/php_database.php';

/** Somebody else's row, and on MySQL what comes of two who insert while a third deletes. */
const IS_TAKEN = ['23505', '23000', '40001'];

final class RowHeld extends Held
{
    private string $desc;
    private string $descColumn;

    public function __construct(private string $uri, private string $name)
    {
        $this->desc = gethostname() . ' ' . bin2hex(random_bytes(8));
        $this->descColumn = str_starts_with($uri, 'mysql') ? '`desc`' : '"desc"';
    }

    public function take(float $ttl): bool
    {
        try {
            $this->ask("INSERT INTO TABLE (lock_name, $this->descColumn) VALUES (?, ?)", [$this->name, $this->desc]);
        } catch (PDOException $error) {
            if (!in_array($error->errorInfo[0], IS_TAKEN, true)) {
                throw $error;
            }

            return false;
        }

        return true;
    }

    public function release(): string
    {
        $wasOurs = $this->left() > 0;
        $this->ask('DELETE FROM TABLE WHERE lock_name = ?', [$this->name]);

        return $wasOurs ? 'released' : 'stolen';
    }

    public function extend(float $ttl): bool
    {
        throw new Failed('unsupported', 'its holds have no end');
    }

    public function left(): float
    {
        $asked = $this->ask("SELECT 1 FROM TABLE WHERE lock_name = ? AND $this->descColumn = ?", [$this->name, $this->desc]);

        return $asked->fetchColumn() ? TTL : 0;
    }

    private function ask(string $statement, array $values): PDOStatement
    {
        $table = str_starts_with($this->uri, 'mysql') ? '`lock`' : 'lock';
        $asked = database($this->uri)->prepare(str_replace('TABLE', $table, $statement));
        $asked->execute($values);

        return $asked;
    }
}

play('sql-table', '1', fn (string $uri, string $key) => new RowHeld($uri, $key));

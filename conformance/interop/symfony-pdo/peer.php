<?php
// Symfony's Lock component over a database as a peer, which never renews by itself.

require __DIR__ . '/../../shims/php_peer.php';
require __DIR__ . '/../../shims/php_database.php';
require 'Symfony/Component/Lock/autoload.php';

use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Lock;
use Symfony\Component\Lock\Store\PdoStore;

final class SymfonyHeld extends Held
{
    private Key $key;

    public function __construct(private string $uri, private string $name)
    {
        $this->key = new Key($name);
        // As the store would do it: whatever process takes the lock, this one may give it back.
        $this->key->setState(PdoStore::class, base64_encode(random_bytes(32)));
    }

    public function take(float $ttl): bool
    {
        try {
            return $this->lock($ttl)->acquire();
        } catch (LockAcquiringException $error) {
            // Two who ask for a row that a third deletes are a deadlock even among its own. None may leave a row behind.
            if ($this->left() > 0) {
                throw $error;
            }

            return false;
        }
    }

    public function release(): string
    {
        $wasOurs = $this->lock()->isAcquired();
        $this->lock()->release();

        return $wasOurs ? 'released' : 'stolen';
    }

    public function extend(float $ttl): bool
    {
        if ($this->left() <= 0) {
            return false;
        }
        $this->lock($ttl)->refresh();

        return true;
    }

    public function left(): float
    {
        $asked = database($this->uri)->prepare('SELECT key_expiration FROM lock_keys WHERE key_id = ? AND key_token = ?');
        $asked->execute([hash('sha256', $this->name), $this->key->getState(PdoStore::class)]);

        return max(0, (int) $asked->fetchColumn() - time());
    }

    private function lock(float $ttl = TTL): Lock
    {
        return new Lock($this->key, new PdoStore(database($this->uri)), max(1, (int) ceil($ttl)), false);
    }
}

play('symfony', '5.4', fn (string $uri, string $key) => new SymfonyHeld($uri, $key));

<?php
// The database of a peer that keeps its locks in one.

/** The connection of this process: one that was forked leaves its parent's alone. */
function database(string $uri): PDO
{
    static $connections = [];

    return $connections[getmypid()] ??= connected($uri);
}

function connected(string $uri): PDO
{
    $of = parse_url($uri);
    $driver = $of['scheme'] === 'postgres' ? 'pgsql' : 'mysql';
    $at = "$driver:host={$of['host']};port={$of['port']};dbname=" . trim($of['path'], '/');

    return new PDO($at, $of['user'], rawurldecode($of['pass'] ?? ''));
}

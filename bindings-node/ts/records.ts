/** What locks of a client promise. */
export interface Guarantees {
  readonly store: string
  readonly layout: string
  /** Until when a holder is the only one: `deadline`, `a step of a node's clock`, `store failover` or `clock skew`. */
  readonly exclusiveUntil: string
  /** Until when fencing tokens rise: `always`, `with the store's clock`, `while the store keeps its data`, `while the process lives` or `none`. */
  readonly token: string
  /** Whether `fair` can be had. */
  readonly fair: boolean
  /** Whether `reentrant` can be had. */
  readonly reentrant: boolean
  /** Whether other processes see the locks. */
  readonly shared: boolean
  /** Whether waiters are told when it is their turn; otherwise they ask again by a timer. */
  readonly push: boolean
  /** Whether what is held survives the loss of a connection. */
  readonly survivesDisconnect: boolean
  /** Whether a late release or renewal can never touch a later hold of the same owner. */
  readonly incarnation: boolean
  /** What else there is to know. */
  readonly notes: readonly string[]
}

/** What a caller insists on: of locks, or where `rwlock`, `semaphore`, `latch` or `barrier` are named, of each of them. */
export interface Requirements {
  /** There are read/write locks. */
  readonly rwlock?: boolean | undefined
  /** There are semaphores. */
  readonly semaphore?: boolean | undefined
  /** There are latches. Nobody holds one, so `fenced`, `fair` and `reentrant` say nothing of it. */
  readonly latch?: boolean | undefined
  /** There are barriers, of which the same is true. */
  readonly barrier?: boolean | undefined
  /** A fencing token that rises. */
  readonly fenced?: boolean | undefined
  /** First come, first served. */
  readonly fair?: boolean | undefined
  /** `reentrant` can be had. */
  readonly reentrant?: boolean | undefined
  /** Other processes see the locks. */
  readonly shared?: boolean | undefined
  /** Waiters are pushed to. */
  readonly push?: boolean | undefined
  /** Two holders are impossible even when the store fails over. */
  readonly failoverSafe?: boolean | undefined
}

/** What `ping` found. */
export interface Health {
  /** Milliseconds to acquire a lock and give it back: two round trips, and a connection where there was none. */
  readonly took: number
  /** What the store does when its memory is full, such as Redis' `noeviction`, where it has such a thing and this user may ask. */
  readonly eviction?: string | undefined
  /** Whether the store may then throw away locks that are held. */
  readonly mayEvict: boolean
}

/** Who holds a lock. */
export interface Holder {
  /** A hash that tells two holders apart. */
  readonly owner: string
  readonly host: string
  readonly pid: number
  readonly language: string
  readonly label: string
  /** Milliseconds, where the store can tell. */
  readonly heldFor?: number | undefined
  /** Milliseconds that the lease still lasts at the store; `Infinity` for a lease of another library that has no end. */
  readonly remaining: number
  /** 0 for a holder that uses another library. */
  readonly firstToken: bigint
  /** A process that hands the lock on among its tasks has several; `breakLock` takes any of them. */
  readonly lastToken: bigint
}

/** What `inspect` tells about a lock. */
export interface Inspection {
  readonly name: string
  readonly layout: string
  /** `undefined` when it is free. */
  readonly holder?: Holder | undefined
  /** How many wait, over all clients. */
  readonly waiters: number
  /** How many are ahead, at most, of each that waits by this client, in the order in which they came, as the store said last. Those who are not
   * `fair` wait together, as one; who has no place in a queue is left out. */
  readonly ahead: readonly number[]
  /** Who waits in the store's queue, of all clients, whoever is served next first: at most the first 100. Empty where the layout keeps no
   * queue, or not who stands in it. */
  readonly queue: readonly Waiting[]
  /** What lies there, held or remembered; `undefined` where nothing does. */
  readonly primitive?: 'lock' | 'rwlock' | 'semaphore' | 'latch' | 'barrier' | undefined
  /** For a read/write lock or a semaphore: what it is, and all who hold it. */
  readonly shared?: Sharing | undefined
  /** For a latch: how it stands. Nobody holds one; who waits is in `waiters`, also who went without a word. */
  readonly latch?: Counting | undefined
}

/** Somebody in a queue. */
export interface Waiting {
  readonly host: string
  readonly pid: number
  readonly language: string
  readonly label: string
  /** For how many milliseconds it has waited, where the store keeps since when. */
  readonly waited?: number | undefined
  /** The `rank` of a fair lock, from 0 to 9; 0 of all else. */
  readonly rank: number
  /** `read`, `write`, or how many permits; `undefined` of a lock. */
  readonly wants?: string | undefined
}

/** How a latch stands. */
export interface Counting {
  /** How many are still to come; 0 once it is open. */
  readonly count: number
}

/** Who holds a read/write lock or a semaphore. */
export interface Sharing {
  readonly primitive: 'rwlock' | 'semaphore'
  /** How many there are, of a semaphore. */
  readonly permits?: number | undefined
  /** In the order of their tokens: all, unless a store has no room for so many in one answer (on Redis some 2,300). */
  readonly holders: readonly Part[]
  /** How many more hold it than these. */
  readonly unlisted: number
}

/** What one of several holders has. */
export interface Part {
  /** `read`, `write`, or how many permits. */
  readonly holds: string
  readonly holder: Holder
}

/** Why a lock was lost while it was held. */
export type LossReason = 'expired' | 'max_hold' | 'abandoned' | 'not_renewed' | 'gone' | 'broken' | 'closed'

/** What the store found when a lock was given back. */
export type ReleaseOutcome = 'released' | 'kept' | 'expired' | 'stolen' | 'unknown'

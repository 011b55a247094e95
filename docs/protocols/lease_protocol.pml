/*
 * lease_protocol.pml: the local shared-memory protocol of Sluice, small enough to check exhaustively.
 * local.md explains it; tools/run_model.py checks every model and every switch below.
 *
 * Pick a model with -DMODEL=n. Without further switches a model must pass; each switch plants one bug or takes one
 * rule away, and the check must then fail.
 *
 *   MODEL 1  core       reserve, write, publish, lease, evict, remove, expire, reuse; any client killed at any step,
 *                       the daemon killed at any step and restarted
 *   MODEL 2  order      the lease handshake with steps reordered as weak memory may (ARM)
 *   MODEL 3  buffer     the lease handshake over FIFO store buffers (x86)
 *   MODEL 4  probe      open addressing with tombstones while a reader probes
 *   MODEL 5  growth     a second, larger index beside the first
 *   MODEL 6  hand-over  a lease passed from one process, or one lease word, to another
 *   MODEL 7  hand-off   an object that is read while it is still being written, group by group
 *   MODEL 8  grants     extents granted ahead without a key, moved to an index slot at publish; the daemon killed between
 *   MODEL 9  attach     clients that attach while the daemon scans the pages; the daemon killed and restarted
 *
 * Safety:    spin -DMODEL=1 -a lease_protocol.pml
 *            gcc -O2 -DSAFETY -DCOLLAPSE -DNOREDUCE -o pan pan.c && ./pan -m10000000 -w27
 * Liveness:  spin -DMODEL=1 -DPROGRESS -DNR=1 -DNS=1 -DNK=1 -DGENMOD=1 -a lease_protocol.pml
 *            gcc -O2 -DCOLLAPSE -DNOREDUCE -o pan pan.c && ./pan -a -f -N reader_goes_on -m10000000
 * Loops:     spin -DMODEL=4 -DNT=3 -DLOOPS -a lease_protocol.pml
 *            gcc -O2 -DNP -DCOLLAPSE -DNOREDUCE -o pan pan.c && ./pan -l -f -m10000000
 * A failing run leaves a trail: replay it with spin -t -p and the same -D switches. gcc -DBFS finds a shortest one.
 * NOREDUCE: being killed is a rendezvous inside "unless", which partial order reduction is not trusted with.
 *
 * Promela is sequentially consistent: outside models 2 and 3 each statement is one globally visible step. Models 2
 * and 3 show which fences the code needs before that may be assumed.
 *
 * Left out: hashing (in model 1 a reader may start at any slot), sizes (an extent is two words), time (a timer may
 * fire at any step; a pause is a process that is not scheduled), checksums (a word is right when it carries the number
 * of the reservation that wrote it), attaching (outside model 9 all pages exist at the start). One lease word per reader
 * and one request in flight per producer: more of them would be further, independent words.
 */

#ifndef MODEL
#define MODEL 1
#endif

#if MODEL == 1
/* ================================================================================================================
 * MODEL 1, core. The rules it checks when no switch is set:
 *
 *   - The slot word {state, generation} is one atomic word. The other fields change only while the state is FREE.
 *   - The slots are the only truth about extents: an extent is free when every slot that names it is FREE. Free
 *     lists are private to the daemon and rebuilt from the slots.
 *   - A reservation stands in its slot before the grant is answered.
 *   - Evict or remove: state := RETIRED; fence; scan every page; only if none names {slot, generation}, state := FREE.
 *     Slot and extent become free together.
 *   - Expiry: state := EXPIRED. It can no longer be published, but slot and extent stay taken until the producer
 *     itself says that it has stopped writing (publish or abort), or is dead.
 *   - A dead client's page is dropped last, after its leases and reservations.
 *   - A restarted daemon has no special path: it goes on from the slot states.
 *
 * Switches that must fail:
 *   NO_RECHECK               the reader does not look at the slot again once its lease stands
 *   CHECK_THEN_RETIRE        the daemon scans the pages first and retires the slot after that
 *   EARLY_FIELDS             key and extent are read before the lease stands, only the generation after it; fails
 *                            because the generation wraps (GENMOD)
 *   SLOT_REUSE               the slot is given away at once, only the extent waits for its leases
 *   SLOT_REUSE SECOND_CHECK  ... and the reader checks the generation again after reading the fields (wrap again)
 *   TIMER_FREES              expiry frees the extent
 *   TIMER_FREES VERIFY       ... and readers verify a checksum before they use the bytes in place
 *   TIMER_FREES PUB_BY_GEN   ... and publish names {slot, generation} instead of a never repeated reservation number
 *   RESTART_DROPS            the restarted daemon frees the reservations of living producers
 *   RESTART_FORGETS          the restarted daemon frees RETIRED slots without a scan
 *   GRANT_FIRST              the grant is answered before the slot records it
 *   EOF_IS_DEATH             a closed socket counts as death
 *   PAGE_FIRST               a dead client's page is dropped before its reservations are freed
 *   PROGRESS NO_DEADLINE     the producer waits for the daemon without a deadline (formula producer_goes_on)
 * OBSERVE leaves only the assertions on what a reader sees, to show that a broken rule ends in wrong bytes.
 */
#ifndef NR
#define NR 2            /* readers */
#endif
#ifndef NP
#define NP 1            /* producers */
#endif
#ifndef NS
#define NS 2            /* index slots, 1 or 2 */
#endif
#ifndef NE
#define NE 1            /* extents, 1 or 2 */
#endif
#ifndef NK
#define NK 2            /* keys, 1 or 2 */
#endif
#ifndef GENMOD
#define GENMOD 2        /* generations before the counter wraps: far too few, on purpose */
#endif
#ifdef OBSERVE
#define MAXRID (3 * NE + NR + 3 * NP + 1)
#else
#define MAXRID (NE + NP + 1)    /* enough for one fresh reservation number at any time */
#endif
#define NC (NR + NP)    /* clients: readers first, then producers */

/* slot states */
#define FREE      0
#define RESERVED  1
#define EXPIRED   2
#define PUBLISHED 3
#define RETIRED   4

/* requests */
#define RESERVE 1
#define PUBLISH 2
#define ABORT   3

/* ---- control segment: only the daemon writes it; it survives the daemon ---- */
typedef Slot {
  byte st; byte gen;    /* the slot word: one atomic word */
  byte key; byte ext;
  byte rid;             /* reservation number, never repeated (64 bits in the code) */
  byte own;             /* the producer's client number */
  bit  open             /* grant not yet answered; the code keeps the request's sequence number here and compares */
};
Slot slot[NS];
#ifdef SLOT_REUSE
byte parked[NE];        /* 0, or the lease word that the extent still waits for */
#endif

/* ---- data segment: producers write it ---- */
byte pay[NE * 2];       /* per word the reservation that wrote it; 0 once the extent was freed */

/* ---- client pages: they survive their client and the daemon ---- */
byte lease[NR];         /* 0, or LEASE(slot, generation): one atomic word */
byte rq_op[NP]; byte rq_rid[NP]; byte rq_key[NP];   /* request; rq_op stands for its sequence number, stored last */
bit  rs_ok[NP]; byte rs_rid[NP]; byte rs_ext[NP];   /* answer, same ring index; rq_op := 0 stands for its last store */
#ifdef PUB_BY_GEN
byte rq_slot[NP]; byte rq_gen[NP]; byte rs_slot[NP]; byte rs_gen[NP];
#endif
bit  page[NC];          /* the page exists */

/* ---- what the kernel knows ---- */
chan kill[NC] = [0] of { bit };     /* kill -9: the client takes no further step */
chan dkill = [0] of { bit };        /* the same for the daemon */
bit gone[NC];           /* the kernel reports its death */
bit done;               /* the daemon found everything free after the last client */
#ifdef EOF_IS_DEATH
bit eof[NR];            /* the client lives, but its socket is closed */
#endif

/* ---- ghosts, read by assertions only ---- */
byte want[NR];          /* the reservation whose bytes the reader must see */
byte mine[NP];          /* the reservation the producer works on */
byte held[NR];          /* 0, or 1 + extent: the validated lease of a living reader */
byte pen[NP];           /* 0, or 1 + extent: a living producer that was granted it and has not said it is done */
bit  expired[MAXRID + 1];
#ifdef PROGRESS
bit  busy[NC];          /* inside an operation */
bit  dbusy;
#define BUSY(c, x)   busy[c] = x
#define DBUSY(x)     dbusy = x
#else
#define BUSY(c, x)   skip
#define DBUSY(x)     skip
#endif

#define LEASE(s, g)  (1 + (s) * GENMOD + (g))
#define PENDING(p)   (rq_op[p] != 0)
#define NAMES(s, e)  (slot[s].st != FREE && slot[s].ext == (e))
#define LIVE(s, k)   (slot[s].st == PUBLISHED && slot[s].key == (k))
#define SERVED(s, p) (slot[s].st == RESERVED && slot[s].own == NR + (p) && slot[s].open)
#define ORPHAN(s)    (slot[s].st == RESERVED && slot[s].open)      /* granted, not yet answered */
#if NS == 1
#define USED0(e)     NAMES(0, e)
#define HAVE(k)      LIVE(0, k)
#define ANY(x)       (slot[0].st == (x))
#define SHOWN(e)     (slot[0].st == PUBLISHED && slot[0].ext == (e))
#else
#define USED0(e)     (NAMES(0, e) || NAMES(1, e))
#define HAVE(k)      (LIVE(0, k) || LIVE(1, k))
#define ANY(x)       (slot[0].st == (x) || slot[1].st == (x))
#define SHOWN(e)     ((slot[0].st == PUBLISHED && slot[0].ext == (e)) || \
                      (slot[1].st == PUBLISHED && slot[1].ext == (e)))
#endif
#ifdef SLOT_REUSE
#define USED(e)      (USED0(e) || parked[e] != 0)
#else
#define USED(e)      USED0(e)
#endif
#if NR == 1
#define HELD(e)      (held[0] == 1 + (e))
#else
#define HELD(e)      (held[0] == 1 + (e) || held[1] == 1 + (e))
#endif
#if NP == 1
#define PENNED(e)    (pen[0] == 1 + (e))
#else
#define PENNED(e)    (pen[0] == 1 + (e) || pen[1] == 1 + (e))
#endif
#if NC == 2
#define NOPAGES      (!page[0] && !page[1])
#elif NC == 3
#define NOPAGES      (!page[0] && !page[1] && !page[2])
#else
#define NOPAGES      (!page[0] && !page[1] && !page[2] && !page[3])
#endif
#ifdef PUB_BY_GEN
#define MINE(s, p)   (slot[s].st != FREE && rq_slot[p] == (s) && rq_gen[p] == slot[s].gen)
#else
#define MINE(s, p)   (slot[s].st != FREE && slot[s].rid == rq_rid[p] && slot[s].own == NR + (p))
#endif
#ifdef OBSERVE
#define STRICT(x)    skip
#else
#define STRICT(x)    assert(x)
#endif
#ifdef EOF_IS_DEATH
#define DEAD(r)      (gone[r] || eof[r])
#else
#define DEAD(r)      gone[r]
#endif

/* A number that nothing names any more may stand for a new one: a number that is never repeated, in a finite model. */
#if NS == 1
#define INSLOT(x)    (slot[0].st != FREE && slot[0].rid == (x))
#else
#define INSLOT(x)    ((slot[0].st != FREE && slot[0].rid == (x)) || (slot[1].st != FREE && slot[1].rid == (x)))
#endif
#if NE == 1
#define INPAY(x)     (pay[0] == (x) || pay[1] == (x))
#else
#define INPAY(x)     (pay[0] == (x) || pay[1] == (x) || pay[2] == (x) || pay[3] == (x))
#endif
#define INPROD(p, x) (mine[p] == (x) || rq_rid[p] == (x) || rs_rid[p] == (x))
#if NP == 1
#define INPRODS(x)   INPROD(0, x)
#else
#define INPRODS(x)   (INPROD(0, x) || INPROD(1, x))
#endif
#if NR == 1
#define WANTED(x)    (want[0] == (x))
#else
#define WANTED(x)    (want[0] == (x) || want[1] == (x))
#endif
#define FRESH(x)     (!INSLOT(x) && !INPAY(x) && !INPRODS(x) && !WANTED(x))

/* State := FREE is one store in the code. Clearing the rest merges equal states and poisons what nobody may read. */
#define WIPE(s)      slot[s].key = 0; slot[s].ext = 0; slot[s].rid = 0; slot[s].own = 0; slot[s].open = 0
#ifdef OBSERVE
#define POISON(e)    skip
#else
#define POISON(e)    pay[(e) * 2] = 0; pay[(e) * 2 + 1] = 0
#endif
#define SET_FREE(s)  slot[s].st = FREE; POISON(slot[s].ext); WIPE(s)

/* ---------------------------------------------------------------- reader: look up, acquire, read, release */
proctype Reader(byte r) {
  byte s, g, k, e;
  byte wkey;            /* ghost: the key of want[r] */
  {
    skip;
end_idle:               /* nothing published is a miss, not a wait */
    atomic {
      if
      :: slot[0].st == PUBLISHED -> s = 0
#if NS > 1
      :: slot[1].st == PUBLISHED -> s = 1
#endif
      fi;
      g = slot[s].gen;
      BUSY(r, 1);
#ifdef EARLY_FIELDS
      k = slot[s].key; e = slot[s].ext;
#endif
#ifdef NO_RECHECK
      want[r] = slot[s].rid; wkey = slot[s].key
#endif
    };
    lease[r] = LEASE(s, g);                                             /* publish; then the seq_cst fence */
#ifndef NO_RECHECK
    atomic {                                                            /* look again: one load of the slot word */
      if
      :: slot[s].st == PUBLISHED && slot[s].gen == g ->
           held[r] = 1 + slot[s].ext; want[r] = slot[s].rid; wkey = slot[s].key
      :: else -> goto release
      fi
    };
#endif
#ifdef EOF_IS_DEATH
    if :: eof[r] = 1 :: skip fi;
#endif
#ifndef EARLY_FIELDS
    atomic { k = slot[s].key; e = slot[s].ext };                        /* only now: key and extent */
#endif
#ifdef SECOND_CHECK
    if :: slot[s].st == PUBLISHED && slot[s].gen == g :: else -> goto release fi;
#endif
#ifdef VERIFY
    if :: pay[e * 2] == want[r] :: else -> goto release fi;
    if :: pay[e * 2 + 1] == want[r] :: else -> goto release fi;
#endif
    assert(k == wkey && pay[e * 2] == want[r]);                         /* property 1, first word */
    assert(pay[e * 2 + 1] == want[r]);                                  /* property 1, second word */
release:
    atomic { held[r] = 0; lease[r] = 0; BUSY(r, 0); s = 0; g = 0; k = 0; e = 0; want[r] = 0; wkey = 0 };
    goto end_idle
  } unless { kill[r]?1 };
  atomic { held[r] = 0; BUSY(r, 0); gone[r] = 1; s = 0; g = 0; k = 0; e = 0; want[r] = 0; wkey = 0 }
}

/* ---------------------------------------------------------------- producer: reserve, write, publish or abort */
proctype Producer(byte p) {
  byte e;
  bit  late;            /* a reserve was given up; its grant may still come */
  {
    skip;
end_idle:               /* a request still pending means the next put answers "busy", not that it waits */
    if
    :: atomic { !PENDING(p) && late && rs_ok[p] ->                      /* nobody wants this grant any more */
         late = 0; mine[p] = rs_rid[p]; rs_ok[p] = 0; rs_rid[p] = 0; rs_ext[p] = 0; BUSY(NR + p, 1); goto give_back }
    :: atomic { !PENDING(p) && !(late && rs_ok[p]) ->
         late = 0; BUSY(NR + p, 1);
         if
         :: rq_key[p] = 1
#if NK > 1
         :: rq_key[p] = 2
#endif
         fi;
         rq_op[p] = RESERVE; rq_rid[p] = 0 }
    fi;
    if
    :: atomic { !PENDING(p) ->
         if
         :: rs_ok[p] -> mine[p] = rs_rid[p]; e = rs_ext[p]; rs_ok[p] = 0; rs_rid[p] = 0; rs_ext[p] = 0
#ifdef PUB_BY_GEN
            ; rq_slot[p] = rs_slot[p]; rq_gen[p] = rs_gen[p]
#endif
         :: else -> goto finish
         fi }
#ifndef NO_DEADLINE
    :: atomic { true -> late = 1; goto finish }                         /* the deadline passed */
#endif
    fi;
    atomic { STRICT(!HELD(e) && !SHOWN(e)); pay[e * 2] = mine[p] };
    if
    :: true -> goto give_back                                           /* the application failed half way */
    :: true
    fi;
    atomic { STRICT(!HELD(e) && !SHOWN(e)); pay[e * 2 + 1] = mine[p] };
    atomic { pen[p] = 0; rq_op[p] = PUBLISH; rq_rid[p] = mine[p]; rq_key[p] = 0 };
    goto await;
give_back:
    atomic { pen[p] = 0; rq_op[p] = ABORT; rq_rid[p] = mine[p]; rq_key[p] = 0 };
await:                  /* the put is over; until its request is served, the next one answers "busy" */
#ifdef PROGRESS
#ifdef NO_DEADLINE
    !PENDING(p);
#endif
#endif
finish:
    atomic { BUSY(NR + p, 0); mine[p] = 0; e = 0 };
    goto end_idle
  } unless { kill[NR + p]?1 };
  atomic { pen[p] = 0; BUSY(NR + p, 0); gone[NR + p] = 1; mine[p] = 0; e = 0; late = 0 }
}

/* One store; then the seq_cst fence. */
#ifdef SLOT_REUSE
#define RETIRE(s)    parked[slot[s].ext] = LEASE(s, slot[s].gen); slot[s].st = FREE; goto end_loop
#else
#define RETIRE(s)    slot[s].st = RETIRED; goto end_loop
#endif
#ifdef TIMER_FREES
#define EXPIRE(s)    expired[slot[s].rid] = 1; SET_FREE(s); goto end_loop
#else
#define EXPIRE(s)    expired[slot[s].rid] = 1; slot[s].st = EXPIRED; goto end_loop
#endif
#define IDLE         s = 0; p = 0; e = 0; c = 0; x = 0; ok = 0; DBUSY(0)
#define TAKEN(s)     (slot[s].st == RESERVED || slot[s].st == EXPIRED)

/* Write a reservation. Its fields come first, the slot word last; nobody may look at the fields of a FREE slot, and
   they are poisoned, so that one step does for all of them. */
inline record(i, j) {
  s = i; e = j; ok = 1;
  STRICT(!HELD(e) && !PENNED(e));                                       /* property 2 */
  x = 1; do :: x <= MAXRID && !FRESH(x) -> x++ :: else -> break od; assert(x <= MAXRID);
  slot[s].key = rq_key[p]; slot[s].ext = e; slot[s].own = NR + p; slot[s].open = 1; slot[s].rid = x;
  expired[x] = 0; x = 0;
  slot[s].gen = (slot[s].gen + 1) % GENMOD;
#ifdef GRANT_FIRST
  c = 1                                                                 /* the slot word waits until after the answer */
#else
  slot[s].st = RESERVED
#endif
}

/* Publish or abort a reservation that still stands. Either way the producer says that it has stopped writing. */
inline settle(i) {
  s = i;
  if
  :: TAKEN(s) && (rq_op[p] == ABORT || slot[s].st == EXPIRED || HAVE(slot[s].key)) ->   /* late, or another was first */
       STRICT(!HELD(slot[s].ext)); SET_FREE(s)
  :: slot[s].st == RESERVED && rq_op[p] == PUBLISH && !HAVE(slot[s].key) ->
       assert(!expired[rq_rid[p]]);                                     /* property 5 */
       STRICT(pay[slot[s].ext * 2] == slot[s].rid && pay[slot[s].ext * 2 + 1] == slot[s].rid);  /* all of it written */
       slot[s].st = PUBLISHED; ok = 1                                   /* visible by this one store */
  :: else -> ok = 1                                                     /* published before a restart */
  fi
}

/* Serve a request up to its one visible store; the answer is a step of its own. */
inline serve(i) {
  p = i; DBUSY(1);
  if
  :: rq_op[p] == RESERVE ->
       if
       :: SERVED(0, p) -> s = 0; ok = 1                                 /* recorded before a restart: the same grant */
#if NS > 1
       :: SERVED(1, p) -> s = 1; ok = 1
#endif
       :: else ->
            if
            :: !HAVE(rq_key[p]) && slot[0].st == FREE && !USED(0) -> record(0, 0)
#if NE > 1
            :: !HAVE(rq_key[p]) && slot[0].st == FREE && !USED(1) -> record(0, 1)
#endif
#if NS > 1
            :: !HAVE(rq_key[p]) && slot[1].st == FREE && !USED(0) -> record(1, 0)
#if NE > 1
            :: !HAVE(rq_key[p]) && slot[1].st == FREE && !USED(1) -> record(1, 1)
#endif
#endif
            :: else                                                     /* already there, or no space: say so */
            fi
       fi
  :: else ->
       if
       :: MINE(0, p) -> settle(0)
#if NS > 1
       :: MINE(1, p) -> settle(1)
#endif
       :: else                                                          /* long gone: refused */
       fi
  fi
}

/* Scan the pages for leases on slot i; the first page here, the others below. Never blocks: a lease just ends it. */
inline scan(i) {
  if
  :: lease[0] == LEASE(i, slot[i].gen) -> assert(!NOPAGES)              /* property 4: no lease outlives the clients */
  :: else -> s = i; c = 1; DBUSY(1)
  fi
}

/* ---------------------------------------------------------------- daemon: the only writer of slots */
active proctype Daemon() {
  byte s, p, e, c, x;
  bit ok;
boot:
  {
    skip;
#ifdef RESTART_DROPS
    atomic { if :: TAKEN(0) -> SET_FREE(0) :: else fi };
#if NS > 1
    atomic { if :: TAKEN(1) -> SET_FREE(1) :: else fi };
#endif
#endif
#ifdef RESTART_FORGETS
    atomic { if :: slot[0].st == RETIRED -> SET_FREE(0) :: else fi };
#if NS > 1
    atomic { if :: slot[1].st == RETIRED -> SET_FREE(1) :: else fi };
#endif
#endif
end_loop:
    if
    /* a request */
    :: atomic { page[NR] && PENDING(0) -> serve(0) }; goto answer
#if NP > 1
    :: atomic { page[NR + 1] && PENDING(1) -> serve(1) }; goto answer
#endif
#ifdef CHECK_THEN_RETIRE
    :: atomic { slot[0].st == PUBLISHED -> scan(0) }; goto scan_on
#if NS > 1
    :: atomic { slot[1].st == PUBLISHED -> scan(1) }; goto scan_on
#endif
#else
    /* evict or remove: any published object, at any time */
    :: atomic { slot[0].st == PUBLISHED -> RETIRE(0) }
#if NS > 1
    :: atomic { slot[1].st == PUBLISHED -> RETIRE(1) }
#endif
#endif
    /* reclaim what was retired */
    :: atomic { slot[0].st == RETIRED -> scan(0) }; goto scan_on
#if NS > 1
    :: atomic { slot[1].st == RETIRED -> scan(1) }; goto scan_on
#endif
#ifdef SLOT_REUSE
    :: atomic { parked[0] != 0 && parked[0] != lease[0] -> e = 0; DBUSY(1) }; goto scan_parked
#if NE > 1
    :: atomic { parked[1] != 0 && parked[1] != lease[0] -> e = 1; DBUSY(1) }; goto scan_parked
#endif
#endif
    /* a reservation's time is up */
    :: atomic { slot[0].st == RESERVED && !ORPHAN(0) -> EXPIRE(0) }
#if NS > 1
    :: atomic { slot[1].st == RESERVED && !ORPHAN(1) -> EXPIRE(1) }
#endif
    /* a client died */
    :: atomic { page[0] && DEAD(0) -> lease[0] = 0; c = 0; DBUSY(1) }; goto drop_page
#if NR > 1
    :: atomic { page[1] && DEAD(1) -> lease[1] = 0; c = 1; DBUSY(1) }; goto drop_page
#endif
    :: atomic { page[NR] && gone[NR] -> c = NR; DBUSY(1) }; goto bury
#if NP > 1
    :: atomic { page[NR + 1] && gone[NR + 1] -> c = NR + 1; DBUSY(1) }; goto bury
#endif
    /* property 4: after the last client everything is free again */
    :: atomic { NOPAGES && !ANY(PUBLISHED) && !ANY(RETIRED) ->
         assert(!ANY(RESERVED) && !ANY(EXPIRED)); done = 1; goto stop }
    fi;

scan_on:
    atomic {
      if
      :: c == 0 -> IDLE; goto end_loop
      :: else
#if NR > 1
           -> if :: lease[1] == LEASE(s, slot[s].gen) -> IDLE; goto end_loop :: else fi
#endif
      fi
    };
    atomic { STRICT(!HELD(slot[s].ext)); SET_FREE(s); IDLE; goto end_loop };    /* property 2 */

#ifdef SLOT_REUSE
scan_parked:
#if NR > 1
    atomic { if :: lease[1] == parked[e] -> IDLE; goto end_loop :: else fi };
#endif
    atomic { parked[e] = 0; POISON(e); IDLE; goto end_loop };
#endif

bury:
#ifdef PAGE_FIRST
    page[c] = 0;
#endif
    atomic { if :: TAKEN(0) && slot[0].own == c -> SET_FREE(0) :: else fi };
#if NS > 1
    atomic { if :: TAKEN(1) && slot[1].own == c -> SET_FREE(1) :: else fi };
#endif
drop_page:
    atomic {                                                            /* the page goes last */
      page[c] = 0;
      if
      :: c >= NR -> x = c - NR; rq_op[x] = 0; rq_rid[x] = 0; rq_key[x] = 0;
                    rs_ok[x] = 0; rs_rid[x] = 0; rs_ext[x] = 0
      :: else
      fi;
      IDLE; goto end_loop
    };

answer:                                                                 /* its sequence number, stored last, counts */
    atomic {
      if
      :: ok && rq_op[p] == RESERVE ->
           rs_rid[p] = slot[s].rid; rs_ext[p] = slot[s].ext; slot[s].open = 0;
#ifdef PUB_BY_GEN
           rs_slot[p] = s; rs_gen[p] = slot[s].gen;
#endif
           if :: gone[NR + p] :: else -> pen[p] = 1 + slot[s].ext fi
      :: else -> rs_rid[p] = 0; rs_ext[p] = 0
      fi;
      rs_ok[p] = ok; rq_op[p] = 0; rq_rid[p] = 0; rq_key[p] = 0;
#ifdef GRANT_FIRST
      if :: c == 1 :: else -> IDLE; goto end_loop fi
    };
    atomic { slot[s].st = RESERVED;
#endif
      IDLE; goto end_loop
    };

stop:
    skip
  } unless { dkill?1 };
  if
  :: done
  :: else ->
       IDLE;
#ifndef NO_RESTART
       goto boot
#endif
  fi
}

/* ---------------------------------------------------------------- anything may be killed at any step */
active proctype Killer() {
end:
  do
#ifdef PROGRESS
  :: true -> skip               /* fairness must not force a kill */
#else
  :: false
#endif
#ifndef NO_DKILL
  :: dkill!1
#endif
#ifndef NO_CKILL
  :: kill[0]!1
  :: kill[1]!1
#if NC > 2
  :: kill[2]!1
#endif
#if NC > 3
  :: kill[3]!1
#endif
#endif
  od
}

init {
  atomic {
    page[0] = 1; page[1] = 1; run Reader(0);
#if NR > 1
    run Reader(1);
#endif
    run Producer(0);
#if NP > 1
    run Producer(1);
#endif
#if NC > 2
    page[2] = 1;
#endif
#if NC > 3
    page[3] = 1;
#endif
  }
}

#ifdef PROGRESS         /* property 3, under weak fairness: a dead process is one that has stopped for good */
ltl reader_goes_on   { []<>(!busy[0]) }
ltl producer_goes_on { []<>(!busy[NR]) }
ltl daemon_goes_on   { []<>(!dbusy) }
#endif
#endif /* MODEL 1 */

#if MODEL == 2
/* ================================================================================================================
 * MODEL 2, order. One slot, one extent of two words, reused for ever. Each process may take its steps in any order
 * that its orderings do not forbid; a store is visible to all at once (true of x86 and of ARMv8). Built in, because
 * hardware gives them: accesses to one address stay in order, a store waits for the loads it depends on by data or
 * by a branch. Taken away one at a time, each must fail:
 *
 *   NO_FENCE_R  reader   lease store  -> second look     store-load: seq_cst on x86 and ARM
 *   NO_FENCE_D  daemon   RETIRED store -> scan           store-load: seq_cst on x86 and ARM
 *   NO_ACQ_R    reader   second look  -> payload loads   acquire: free on x86, needed on ARM
 *   NO_REL_R    reader   payload loads -> lease := 0     release: free on x86, needed on ARM
 *   NO_REL_P    producer payload stores -> publish       release: free on x86, needed on ARM
 */
#ifdef NO_FENCE_R
#define FENCE_R  true
#else
#define FENCE_R  b
#endif
#ifdef NO_FENCE_D
#define FENCE_D  true
#else
#define FENCE_D  a
#endif
#ifdef NO_ACQ_R
#define ACQ_R    true
#else
#define ACQ_R    c
#endif
#ifdef NO_REL_R
#define REL_R    true
#else
#define REL_R    (d0 && d1)
#endif
#define SHOWS(g)  (g)           /* slot word: published, generation g */
#define GONE(g)   (2 + (g))     /* slot word: retired, generation g */
byte word = 0;
byte lease;                     /* 0, or 1 + generation */
byte pay[2];                    /* generation (modulo 2) that wrote the word */
bit grant, request;

active proctype Reader() {
  byte look, again, v0, v1;
  bit a, b, c, d0, d1, f;
end:
  do
  :: atomic { !a && word < 2 -> look = word; a = 1 }                    /* first look: published, generation = look */
  :: atomic { a && !b -> lease = 1 + look; b = 1 }
  :: atomic { a && !c && FENCE_R -> again = word; c = 1 }                                  /* second look */
  :: atomic { !d0 && ACQ_R -> v0 = pay[0]; d0 = 1 }
  :: atomic { !d1 && ACQ_R -> v1 = pay[1]; d1 = 1 }
  :: atomic { b && c && !f && REL_R -> lease = 0; f = 1 }             /* a store stays behind the branch on c */
  :: atomic { a && b && c && d0 && d1 && f ->
       assert(again != look || (v0 == look && v1 == look));
       look = 0; again = 0; v0 = 0; v1 = 0; a = 0; b = 0; c = 0; d0 = 0; d1 = 0; f = 0 }
  od
}

active proctype Daemon() {
  bit g, a, b, c;
end:
  do
  :: atomic { !a -> word = GONE(g); a = 1 }
  :: atomic { !b && FENCE_D && lease != 1 + g -> b = 1 }                              /* a scan that finds nothing */
  :: atomic { a && b && !c -> grant = 1; c = 1 }
  :: atomic { c && request -> request = 0; g = 1 - g; word = SHOWS(g); a = 0; b = 0; c = 0 }
  od
}

active proctype Producer() {
  bit g, p, q0, q1;
end:
  do
  :: atomic { grant && !p -> grant = 0; g = 1 - g; p = 1 }
  :: atomic { p && !q0 -> pay[0] = g; q0 = 1 }
  :: atomic { p && !q1 -> pay[1] = g; q1 = 1 }
#ifdef NO_REL_P
  :: atomic { p && !(q0 && q1) -> request = 1; if :: !q0 -> goto late0 :: else -> goto late1 fi }
#endif
  :: atomic { p && q0 && q1 -> request = 1; p = 0; q0 = 0; q1 = 0 }
  od;
#ifdef NO_REL_P
late0:
  atomic { pay[0] = g; q0 = 1 };
late1:
  atomic { pay[1] = g; p = 0; q0 = 0; q1 = 0; goto end };
#endif
}
#endif /* MODEL 2 */

#if MODEL == 3
/* ================================================================================================================
 * MODEL 3, buffer. The same handshake in program order on x86: a store waits in its processor's FIFO buffer while
 * later loads go ahead. Switches:
 *   NO_FENCE_R, NO_FENCE_D   without the one or the other fence: each must fail
 *   ASYMMETRIC   the reader has no fence; the daemon drains the readers' buffers instead (membarrier): holds
 */
byte word;                      /* as in model 2: published g = g, retired g = 2 + g */
byte lease;
byte pay[2];
bit grant, request;
chan rbuf = [2] of { byte };            /* the reader's stores to its lease word */
chan dbuf = [2] of { byte, byte };      /* the daemon's stores: 0 = slot word, 1 = grant */

active proctype Drain() {
  byte x, v;
end:
  do
  :: atomic { rbuf?v -> lease = v; v = 0 }
  :: atomic { dbuf?x, v -> if :: x == 0 -> word = v :: else -> grant = 1 fi; x = 0; v = 0 }
  od
}

active proctype Reader() {
  byte look, v;
end:
  do
  :: atomic { word < 2 -> look = word };
     rbuf!(1 + look);
#ifndef NO_FENCE_R
#ifndef ASYMMETRIC
     empty(rbuf);
#endif
#endif
     if
     :: atomic { word == look ->
          v = 1 };
          atomic { assert(pay[0] == look) };
          atomic { assert(pay[1] == look); v = 0 }
     :: word != look
     fi;
     rbuf!0;
     look = 0
  od
}

active proctype Daemon() {
  bit g; byte v;
end:
  do
  :: dbuf!0, 2 + g;
#ifndef NO_FENCE_D
     empty(dbuf);
#endif
#ifdef ASYMMETRIC
     atomic { do :: rbuf?v -> lease = v :: empty(rbuf) -> break od; v = 0 };
#endif
     lease != 1 + g;                                                    /* a scan that finds nothing */
     dbuf!1, 1;
     atomic { request -> request = 0; g = 1 - g };
     dbuf!0, g
  od
}

active proctype Producer() {
  bit g;
end:
  do
  :: atomic { grant -> grant = 0; g = 1 - g };
     pay[0] = g;
     pay[1] = g;
     request = 1
  od
}
#endif /* MODEL 3 */

#if MODEL == 4
/* ================================================================================================================
 * MODEL 4, probe. An open-addressed table of NT (3 or 4) slots, linear probing, tombstones, as many keys; keys 1
 * and 2 start at slot 0, key 3 at slot 1, key 4 at slot 2. A reader looks for key 1 without any
 * lock while the daemon inserts, removes and sweeps.
 *
 *   Promise: a key that is published during the whole look-up is found; a look-up takes at most NT slots.
 *
 * A slot that changes under the reader counts as "not my key" and is passed by. Sweeping turns a tombstone into EMPTY
 * only when the next slot is EMPTY. Switches that must fail:
 *   SWEEP_ANY     a tombstone becomes EMPTY wherever it stands
 *   RELOCATE      a key is moved to an earlier tombstone of its chain
 *   STOP_AT_TOMB  the reader takes a tombstone for the end of the chain
 *   LOOPS UNBOUNDED   the reader probes until it meets EMPTY
 *   LOOPS RETRY       the reader looks at a changing slot again until it holds still
 *   LOOPS ODD_SPIN    the slot carries an odd sequence while it is written, the reader waits for even, the writer dies
 */
#ifndef NT
#define NT    4
#endif
#ifndef GENMOD
#define GENMOD 2
#endif
#define EMPTY 0
#define LIVE  1
#define TOMB  2
#define WRITING 3
typedef Entry { byte st; byte gen; byte key };
Entry t[NT];
bit live[5];            /* ghost: key published */
bit seen;               /* ghost: key 1 published ever since the look-up began */
bit looking, writer_died;

#define HOME(k)  (k < 3 -> 0 : k - 2)
#define PUT(i)   ((i) % NT)

active proctype Daemon() {
  byte k, i, n, j;
end:
  do
#ifdef ODD_SPIN
  :: atomic { !writer_died -> writer_died = 1 };
     break
#endif
  :: atomic {                                                           /* insert an absent key at its first place */
       if :: !live[1] -> k = 1 :: !live[2] -> k = 2 :: !live[3] -> k = 3
#if NT > 3
          :: !live[4] -> k = 4
#endif
          fi;
       n = 0; i = HOME(k);
       do
       :: n < NT && t[i].st == LIVE -> n++; i = PUT(i + 1)
       :: else -> break
       od;
       if :: n == NT -> k = 0; i = 0; n = 0; goto end :: else fi };
     atomic { t[i].key = k };                                           /* not LIVE: the field may be written */
#ifdef ODD_SPIN
     atomic { t[i].st = WRITING };
     if :: true -> atomic { writer_died = 1; goto died } :: true fi;
#endif
     atomic { t[i].gen = (t[i].gen + 1) % GENMOD; t[i].st = LIVE; live[k] = 1; k = 0; i = 0; n = 0 }
  :: atomic {                                                           /* remove */
       if :: t[0].st == LIVE -> i = 0 :: t[1].st == LIVE -> i = 1 :: t[2].st == LIVE -> i = 2
#if NT > 3
          :: t[3].st == LIVE -> i = 3
#endif
          fi;
       t[i].st = TOMB; live[t[i].key] = 0;
       if :: t[i].key == 1 -> seen = 0 :: else fi; i = 0 }
  :: atomic {                                                           /* sweep */
       if :: t[0].st == TOMB -> i = 0 :: t[1].st == TOMB -> i = 1 :: t[2].st == TOMB -> i = 2
#if NT > 3
          :: t[3].st == TOMB -> i = 3
#endif
          fi;
       if
#ifdef SWEEP_ANY
       :: true -> t[i].st = EMPTY; t[i].key = 0
#else
       :: t[PUT(i + 1)].st == EMPTY -> t[i].st = EMPTY; t[i].key = 0
       :: else
#endif
       fi; i = 0 }
#ifdef RELOCATE
  :: atomic {                                                           /* move key 1 back to a tombstone before it */
       live[1] -> j = 0; do :: !(t[j].st == LIVE && t[j].key == 1) -> j++ :: else -> break od;
       i = 0; do :: i < j && t[i].st != TOMB -> i++ :: else -> break od;
       if :: i == j -> i = 0; j = 0; goto end :: else fi;
       t[i].key = 1 };
     atomic { t[i].gen = (t[i].gen + 1) % GENMOD; t[i].st = LIVE };          /* for a moment it is there twice */
     atomic { t[j].st = TOMB; i = 0; j = 0 }
#endif
  od;
died:
  skip
}

active proctype Reader() {
  byte i, n, g; bit hit;
end:
  do
  :: atomic { i = HOME(1); n = 0; hit = 0; seen = live[1]; looking = 1 };
     do
#ifdef UNBOUNDED
     :: atomic { t[i].st == EMPTY -> break }
     :: atomic { t[i].st == TOMB -> i = PUT(i + 1) }
#else
     :: n == NT -> break
     :: atomic { n < NT && t[i].st == EMPTY -> break }
#ifdef STOP_AT_TOMB
     :: atomic { n < NT && t[i].st == TOMB -> break }
#else
     :: atomic { n < NT && t[i].st == TOMB -> i = PUT(i + 1); n++ }
#endif
#endif
#ifdef ODD_SPIN
     :: atomic { t[i].st == WRITING -> skip }
#endif
     :: atomic { n < NT && t[i].st == LIVE -> g = t[i].gen };           /* slot word, key, slot word again */
        atomic { hit = (t[i].key == 1) };
        atomic {
          if
          :: t[i].st == LIVE && t[i].gen == g && hit -> break
          :: t[i].st == LIVE && t[i].gen == g && !hit -> i = PUT(i + 1)
#ifndef UNBOUNDED
               ; n++
#endif
#ifdef RETRY
          :: !(t[i].st == LIVE && t[i].gen == g) -> hit = 0
#else
          :: !(t[i].st == LIVE && t[i].gen == g) -> hit = 0; i = PUT(i + 1)
#ifndef UNBOUNDED
               ; n++
#endif
#endif
          fi;
          g = 0 }
     od;
#ifdef LOOPS
progress:
#endif
     atomic { assert(hit || !seen); i = 0; n = 0; g = 0; hit = 0; seen = 0; looking = 0 }
  od
}
#endif /* MODEL 4 */

#if MODEL == 5
/* ================================================================================================================
 * MODEL 5, growth. One object; the daemon copies its slot into a second, larger table, makes that table current, and
 * later evicts the object. Readers may still hold on to the first table. Rules checked: the lease names the object,
 * not the place in a table; the old slot is marked MOVED before the object is first retired. Switches that must fail:
 *   LEASE_BY_PLACE   a lease names {table, slot}; the scan looks for the place in the current table
 *   NO_MOVED         the old slot is left as it was
 *   MOVED_FIRST      MOVED is stored before the new table is current: a reader misses a published object
 */
#define SHOWN   1
#define RETIRED 2
#define MOVED   3
byte word[2];           /* the object's slot word in table 0 and in table 1 */
byte current;
byte lease;             /* 0, or the object (1), or with LEASE_BY_PLACE 1 + table */
byte pay = 1;
bit out;                /* ghost: the object was evicted */

active proctype Reader() {
  byte t, first; bit here;
end:
  do
  :: atomic { t = current; here = !out };
again:
     if
     :: word[t] == SHOWN ->
#ifdef LEASE_BY_PLACE
          lease = 1 + t;
#else
          lease = 1;
#endif
          if
          :: word[t] == SHOWN -> assert(pay == 1)
          :: word[t] != SHOWN
          fi;
          lease = 0
     :: word[t] == MOVED && current != t -> t = current; goto again     /* once for each growth: bounded */
     :: word[t] == MOVED && current == t -> assert(!here || out)        /* cannot be: a miss of a published object */
     :: word[t] == RETIRED || word[t] == 0
     fi;
     t = 0; here = 0
  od
}

active proctype Daemon() {
  word[0] = SHOWN;
  word[1] = SHOWN;                      /* copied */
#ifdef MOVED_FIRST
  word[0] = MOVED;
#endif
  current = 1;
#ifndef MOVED_FIRST
#ifndef NO_MOVED
  word[0] = MOVED;
#endif
#endif
  atomic { out = 1; word[1] = RETIRED };
#ifdef LEASE_BY_PLACE
end: lease != 2;
#else
end: lease != 1;
#endif
  pay = 2                               /* reused */
}
#endif /* MODEL 5 */

#if MODEL == 6
/* ================================================================================================================
 * MODEL 6, hand-over. Reader 0 holds a valid lease and tells reader 1 {slot, generation}; reader 1 takes its own lease
 * and says so; only then reader 0 releases. The two may be processes or just two lease words of one process. The daemon
 * retires the slot at any time and scans one page after the other.
 * Rule checked: reader 1 succeeds only if the slot is still PUBLISHED after its lease stands. Switch that must fail:
 *   TRUST_HOLDER   reader 1 also accepts a RETIRED slot, because reader 0 still holds its lease
 * TRUST_HOLDER with -DPASSES=2 holds: the daemon frees only after two clean passes in a row, and hand-over is one level.
 */
#ifndef PASSES
#define PASSES 1
#endif
bit retired, freed, told, taken, refused;
bit lease[2] = { 1, 0 };

active proctype Holder() {
  told = 1;
end: taken || refused;
  lease[0] = 0
}

active proctype Taker() {
end: told;
  lease[1] = 1;
  if
  :: atomic { !retired -> skip }
#ifdef TRUST_HOLDER
  :: atomic { retired -> skip }
#else
  :: atomic { retired -> refused = 1; lease[1] = 0; goto out }
#endif
  fi;
  taken = 1;
  assert(!freed);
  assert(!freed);
  lease[1] = 0;
out: skip
}

active proctype Daemon() {
  bit hit; byte clean;
  retired = 1;
end:
  do
  :: atomic { hit = lease[1] };
     atomic { hit = hit || lease[0] };
     if :: hit -> clean = 0 :: else -> clean++; if :: clean >= PASSES -> break :: else fi fi
  od;
  freed = 1
}
#endif /* MODEL 6 */

#if MODEL == 7
/* ================================================================================================================
 * MODEL 7, hand-off. One object is read while it is RESERVED: the producer writes group after group and raises a
 * progress word; the consumer takes a lease first and copies the groups that are there. Rules checked: abort, expiry
 * and death of the producer lead through RETIRED and a scan, not straight to FREE; the daemon resets the progress word
 * before the slot word says RESERVED; the slot is not reused before the producer has let go. Switches that must fail:
 *   FREE_DIRECT   an aborted reservation becomes FREE at once, as in model 1, where nobody could be reading it
 *   NO_RESET      the progress word of the last object is left in the extent
 */
#define FREE      0
#define RESERVED  1
#define PUBLISHED 2
#define RETIRED   3
#define COMMIT    1
#define ABORT     2
#define READABLE  (st == RESERVED || st == PUBLISHED)
byte st, gen;           /* the slot word */
byte lease;             /* 0, or 1 + generation */
byte progress_word;     /* groups written */
byte pay[2];            /* per group the generation that wrote it */
byte request;
bit  granted;

active proctype Producer() {
  byte g;
end:
  do
  :: atomic { granted -> granted = 0; g = gen };
     if
     :: true -> request = ABORT                                         /* abort or death before the first group */
     :: true -> pay[0] = g; progress_word = 1;
        if
        :: true -> request = ABORT
        :: true -> pay[1] = g; progress_word = 2; request = COMMIT
        fi
     fi;
     g = 0
  od
}

active proctype Daemon() {
end:
  do
  :: st == FREE ->
#ifndef NO_RESET
       progress_word = 0;
#endif
       atomic { gen = (gen + 1) % 3; st = RESERVED };
       granted = 1
  :: atomic { request == COMMIT -> request = 0; st = PUBLISHED }
#ifdef FREE_DIRECT
  :: atomic { request == ABORT -> request = 0; st = FREE }
#else
  :: atomic { request == ABORT -> request = 0; st = RETIRED }
#endif
  :: atomic { st == PUBLISHED -> st = RETIRED }                         /* released, evicted */
  :: st == RETIRED ->
       if :: lease == 1 + gen :: lease != 1 + gen -> st = FREE fi
  od
}

active proctype Consumer() {
  byte g;
end:
  do
  :: atomic { READABLE -> g = gen };
     lease = 1 + g;
     if
     :: atomic { READABLE && gen == g -> skip };
        if
        :: progress_word >= 1 -> assert(pay[0] == g)
        :: true -> goto let_go                                          /* deadline, or the slot says RETIRED */
        fi;
        if
        :: progress_word >= 2 -> assert(pay[1] == g)
        :: true -> goto let_go
        fi
     :: atomic { !(READABLE && gen == g) -> skip }
     fi;
let_go:
     atomic { lease = 0; g = 0 }
  od
}
#endif /* MODEL 7 */

#if MODEL == 8
/* ================================================================================================================
 * MODEL 8, grants. A producer is granted an extent before it has anything to put: the grant stands in a table of its
 * own, without a key. Publish writes an index slot that names the same extent and the same reservation number, then
 * frees the grant slot, then answers. The daemon may be killed between any two of these, the producer at any step; one
 * reader reads under a lease. All objects have the same key. Rules checked:
 *
 *   - An extent is free when no slot of either table names it, whichever of them was freed last.
 *   - A grant whose number stands in an index slot is over: a restarted daemon frees such grant slots before it does
 *     anything else.
 *   - A request is recorded before it is answered: served again after a restart, a grant is the same grant, and a
 *     publish shows the object once.
 *   - A publish is refused only when the grant expired, when another object was first, or after it took effect.
 *
 * Switches that must fail:
 *   NO_RESOLVE    the restarted daemon leaves a grant beside the index slot of the same number: the object is evicted,
 *                 the publish served again, and the object is back
 *   OWN_FREE      whoever frees a grant slot gives its extent back, without a look at the index
 *   FREE_FIRST    the grant slot is freed before the index slot is written: the publish is forgotten
 *   SERVE_TWICE   a grant served again takes another extent
 *   GRANT_EARLY   the grant is answered before its slot stands
 */
#ifndef NS
#define NS 2            /* index slots, 1 or 2 */
#endif
#ifndef NE
#define NE 2            /* extents, 1 or 2; as many grant slots */
#endif
#ifndef GENMOD
#define GENMOD 2
#endif
#define MAXRID (NS + NE + 2)

#define FREE      0
#define RESERVED  1
#define EXPIRED   2
#define PUBLISHED 3
#define RETIRED   4

#define GRANT   1
#define PUBLISH 2
#define ABORT   3

typedef Grant { byte st; byte ext; byte rid; bit open };        /* open: not yet answered */
typedef Slot  { byte st; byte gen; byte ext; byte rid };
Grant grant[NE];
Slot slot[NS];
byte pay[NE];           /* the reservation that wrote the extent, 0 once nothing names it */
byte lease;             /* the reader's: 0, or LEASE(slot, generation) */
byte rq_op; byte rq_rid;                        /* the producer's request; 0: answered */
bit  rs_ok; byte rs_rid; byte rs_ext;           /* its answer */
bit  page = 1;
chan pkill = [0] of { bit };
chan dkill = [0] of { bit };
bit  gone;              /* the kernel reports the producer's death */
bit  done;              /* the daemon found everything free after it */
#ifdef OWN_FREE
bit  unused[NE];        /* the daemon's free list */
#endif

/* ghosts */
byte held, pen;         /* 0, or 1 + extent: read under a valid lease; granted to a living producer */
byte want, mine;        /* reservations: of the held object; the producer's */
bit  shown[MAXRID + 1], expired[MAXRID + 1], second[MAXRID + 1];

#define LEASE(s, g)  (1 + (s) * GENMOD + (g))
#define GNAMES(g, e) (grant[g].st != FREE && grant[g].ext == (e))
#define SNAMES(s, e) (slot[s].st != FREE && slot[s].ext == (e))
#define GHAS(g, x)   (grant[g].st != FREE && grant[g].rid == (x))
#define SHAS(s, x)   (slot[s].st != FREE && slot[s].rid == (x))
#if NE == 1
#define GUSES(e)     GNAMES(0, e)
#define INGRANTS(x)  GHAS(0, x)
#define OPEN         (grant[0].st != FREE && grant[0].open)
#define INPAYS(x)    (pay[0] == (x))
#else
#define GUSES(e)     (GNAMES(0, e) || GNAMES(1, e))
#define INGRANTS(x)  (GHAS(0, x) || GHAS(1, x))
#define OPEN         ((grant[0].st != FREE && grant[0].open) || (grant[1].st != FREE && grant[1].open))
#define INPAYS(x)    (pay[0] == (x) || pay[1] == (x))
#endif
#if NS == 1
#define SUSES(e)     SNAMES(0, e)
#define INDEXED(x)   SHAS(0, x)
#define HAVE         (slot[0].st == PUBLISHED)
#define ANYSLOT      (slot[0].st != FREE)
#define ROOM         (slot[0].st == FREE)
#define SHOWN(e)     (SNAMES(0, e) && slot[0].st == PUBLISHED)
#else
#define SUSES(e)     (SNAMES(0, e) || SNAMES(1, e))
#define INDEXED(x)   (SHAS(0, x) || SHAS(1, x))
#define HAVE         (slot[0].st == PUBLISHED || slot[1].st == PUBLISHED)
#define ANYSLOT      (slot[0].st != FREE || slot[1].st != FREE)
#define ROOM         (slot[0].st == FREE || slot[1].st == FREE)
#define SHOWN(e)     ((SNAMES(0, e) && slot[0].st == PUBLISHED) || (SNAMES(1, e) && slot[1].st == PUBLISHED))
#endif
#define USED0(e)     (GUSES(e) || SUSES(e))
#ifdef OWN_FREE
#define USED(e)      (!unused[e])
#define GIVE(e)      unused[e] = 1
#define TAKE(e)      unused[e] = 0
#else
#define USED(e)      USED0(e)
#define GIVE(e)      skip
#define TAKE(e)      skip
#endif
/* A number that nothing names any more may stand for a new one. */
#define FRESH(n)     (!INGRANTS(n) && !INDEXED(n) && !INPAYS(n) && mine != (n) && rq_rid != (n) && rs_rid != (n) && want != (n))

/* x keeps the extent while the slot is wiped. */
#define END(what, x) x = what.ext; what.st = FREE; what.ext = 0; what.rid = 0; GIVE(x); \
                     if :: !USED0(x) -> pay[x] = 0 :: else fi; x = 0
#define END_GRANT(i) grant[i].open = 0; END(grant[i], x)
#define END_SLOT(i)  END(slot[i], x)
#define EXPIRE(i)    expired[grant[i].rid] = 1; grant[i].st = EXPIRED; goto end_loop

active proctype Reader() {
  byte s, g;
end:
  do
  :: atomic {
       if
       :: slot[0].st == PUBLISHED -> s = 0
#if NS > 1
       :: slot[1].st == PUBLISHED -> s = 1
#endif
       fi;
       g = slot[s].gen };
     lease = LEASE(s, g);
     if
     :: atomic { slot[s].st == PUBLISHED && slot[s].gen == g -> held = 1 + slot[s].ext; want = slot[s].rid };
        assert(pay[held - 1] == want)
     :: atomic { !(slot[s].st == PUBLISHED && slot[s].gen == g) -> skip }
     fi;
     atomic { held = 0; want = 0; lease = 0; s = 0; g = 0 }
  od
}

active proctype Producer() {
  byte e;
  {
    skip;
end_idle:
    atomic { rq_op == 0 -> rq_op = GRANT };
end_grant:
    atomic { rq_op == 0 -> if :: rs_ok -> mine = rs_rid; e = rs_ext; rs_ok = 0; rs_rid = 0; rs_ext = 0
                           :: else -> goto end_idle fi };
    if
    :: true -> atomic { assert(held != 1 + e && !SHOWN(e)); pay[e] = mine };
       atomic { pen = 0; rq_op = PUBLISH; rq_rid = mine }
    :: true -> atomic { pen = 0; rq_op = ABORT; rq_rid = mine }
    fi;
end_answer:
    atomic { rq_op == 0 ->
      assert(rs_ok || expired[mine] || second[mine] || shown[mine]);    /* no publish is forgotten */
      rs_ok = 0; mine = 0; e = 0 };
    goto end_idle
  } unless { pkill?1 };
  atomic { pen = 0; mine = 0; e = 0; gone = 1 }
}

inline record(i, j) {
  g = i; ok = 1; TAKE(j);
  assert(!OPEN);                                                        /* one request, one grant */
  assert(held != 1 + j && pen != 1 + j && !SHOWN(j));
  x = 1; do :: x <= MAXRID && !FRESH(x) -> x++ :: else -> break od; assert(x <= MAXRID);
  shown[x] = 0; expired[x] = 0; second[x] = 0;
  grant[g].ext = j; grant[g].rid = x; grant[g].open = 1; x = 0;
#ifdef GRANT_EARLY
  late = 1
#else
  grant[g].st = RESERVED
#endif
}

/* The index slot's fields, then its word. */
inline install(from) {
  assert(!shown[rq_rid]);                                               /* takes effect once */
  assert(!expired[rq_rid] && pay[from] == rq_rid);
  slot[s].ext = from; slot[s].rid = rq_rid; slot[s].gen = (slot[s].gen + 1) % GENMOD; slot[s].st = PUBLISHED;
  shown[rq_rid] = 1
}

/* The first store of a publish or abort; g is its grant, s becomes its index slot. */
inline settle(i) {
  g = i;
  if
  :: INDEXED(rq_rid) -> END_GRANT(g); ok = 1                            /* shown before a restart */
  :: !INDEXED(rq_rid) && rq_op == ABORT -> END_GRANT(g); ok = 1
  :: !INDEXED(rq_rid) && rq_op == PUBLISH && grant[g].st == EXPIRED -> END_GRANT(g)
  :: !INDEXED(rq_rid) && rq_op == PUBLISH && grant[g].st == RESERVED && (HAVE || !ROOM) ->
       second[rq_rid] = 1; END_GRANT(g)
  :: !INDEXED(rq_rid) && rq_op == PUBLISH && grant[g].st == RESERVED && !HAVE && ROOM ->
       ok = 1; move = 1;
       if
       :: slot[0].st == FREE -> s = 0
#if NS > 1
       :: slot[1].st == FREE -> s = 1
#endif
       fi;
#ifdef FREE_FIRST
       e = grant[g].ext; END_GRANT(g)
#else
       install(grant[g].ext)
#endif
  fi
}

active proctype Daemon() {
  byte g, s, e, x;
  bit ok, move, late;
boot:
  {
    skip;
#ifdef OWN_FREE
    atomic { unused[0] = !USED0(0);
#if NE > 1
             unused[1] = !USED0(1);
#endif
           };
#endif
#ifndef NO_RESOLVE
    atomic { if :: grant[0].st != FREE && INDEXED(grant[0].rid) -> END_GRANT(0) :: else fi };
#if NE > 1
    atomic { if :: grant[1].st != FREE && INDEXED(grant[1].rid) -> END_GRANT(1) :: else fi };
#endif
#endif
end_loop:
    if
    :: atomic { page && rq_op == GRANT ->
         if
#ifndef SERVE_TWICE
         :: grant[0].st == RESERVED && grant[0].open -> g = 0; ok = 1   /* recorded before a restart: the same grant */
#if NE > 1
         :: grant[1].st == RESERVED && grant[1].open -> g = 1; ok = 1
#endif
         :: else ->
#else
         :: true ->
#endif
              if
              :: grant[0].st == FREE && !USED(0) -> record(0, 0)
#if NE > 1
              :: grant[0].st == FREE && !USED(1) -> record(0, 1)
              :: grant[1].st == FREE && !USED(0) -> record(1, 0)
              :: grant[1].st == FREE && !USED(1) -> record(1, 1)
#endif
              :: else                                                   /* no space: say so */
              fi
         fi }; goto answer
    :: atomic { page && (rq_op == PUBLISH || rq_op == ABORT) ->
         if
         :: GHAS(0, rq_rid) -> settle(0)
#if NE > 1
         :: GHAS(1, rq_rid) -> settle(1)
#endif
         :: else -> ok = (rq_op == ABORT || INDEXED(rq_rid))            /* served before a restart, or long gone */
         fi };
       if
       :: move ->
#ifdef FREE_FIRST
            atomic { pay[e] = rq_rid; install(e); e = 0 }
#else
            atomic { END_GRANT(g) }
#endif
       :: else
       fi;
       goto answer
    :: atomic { grant[0].st == RESERVED && !grant[0].open -> EXPIRE(0) }
#if NE > 1
    :: atomic { grant[1].st == RESERVED && !grant[1].open -> EXPIRE(1) }
#endif
    :: atomic { slot[0].st == PUBLISHED -> slot[0].st = RETIRED; goto end_loop }
    :: atomic { slot[0].st == RETIRED && lease != LEASE(0, slot[0].gen) -> s = 0 }; goto reclaim
#if NS > 1
    :: atomic { slot[1].st == PUBLISHED -> slot[1].st = RETIRED; goto end_loop }
    :: atomic { slot[1].st == RETIRED && lease != LEASE(1, slot[1].gen) -> s = 1 }; goto reclaim
#endif
    :: page && gone -> goto bury
    :: atomic { !page && !ANYSLOT ->                                    /* nothing is left of the dead */
         assert(!USED(0) && pay[0] == 0);
#if NE > 1
         assert(!USED(1) && pay[1] == 0);
#endif
         done = 1; goto stop }
    fi;

reclaim:
    atomic { assert(held != 1 + slot[s].ext); END_SLOT(s); s = 0; goto end_loop };

bury:
    atomic { if :: grant[0].st != FREE -> END_GRANT(0) :: else fi };
#if NE > 1
    atomic { if :: grant[1].st != FREE -> END_GRANT(1) :: else fi };
#endif
    atomic { page = 0; rq_op = 0; rq_rid = 0; rs_ok = 0; rs_rid = 0; rs_ext = 0; goto end_loop };

answer:
    atomic {
      rs_ok = ok; rs_rid = 0; rs_ext = 0;
      if
      :: ok && rq_op == GRANT ->
           rs_rid = grant[g].rid; rs_ext = grant[g].ext; grant[g].open = 0;
           if :: gone :: else -> pen = 1 + rs_ext fi
      :: else
      fi;
      rq_op = 0; rq_rid = 0
    };
#ifdef GRANT_EARLY
    atomic { if :: late -> grant[g].st = RESERVED :: else fi };
#endif
    atomic { g = 0; s = 0; e = 0; ok = 0; move = 0; late = 0; goto end_loop };
stop:
    skip
  } unless { dkill?1 };
  if
  :: done
  :: else -> atomic { g = 0; s = 0; e = 0; x = 0; ok = 0; move = 0; late = 0; goto boot }
  fi
}

active proctype Killer() {
end:
  do
  :: dkill!1
  :: pkill!1
  od
}
#endif /* MODEL 8 */

#if MODEL == 9
/* ================================================================================================================
 * MODEL 9, attach. One retired slot is scanned while clients attach: the daemon serves an attach between any two looks
 * at pages, and may be killed at any step. Client 1 is attached and holds a lease from the start; it hands over to
 * client 0, which attaches first (as in model 6, it accepts a retired slot); client 2 attaches and reads what is
 * published. Rules checked:
 *
 *   - A page stands in the client table, zeroed, before its client gets it.
 *   - A pass looks at the table as it is during that pass, not at an earlier list.
 *   - A restarted daemon finds all pages of the table before it looks for leases, and starts counting passes anew.
 *
 * Switches that must fail:
 *   LATE_PAGE      the client gets its page before it stands in the table (and the daemon is killed in between)
 *   ONE_LIST       the list of pages is made once, for both passes
 *   EARLY_SCAN     the restarted daemon scans with the pages that it has found so far
 *   PASSES=1       one clean pass is enough
 */
#ifndef PASSES
#define PASSES 2
#endif
#define NC 3
bit listed[NC] = { 0, 1, 0 };   /* client table, in the control segment */
bit handed[NC] = { 0, 1, 0 };   /* the client has its page */
bit asks[NC];                   /* attach request in the socket; lost with the daemon, sent again by the client */
bit lease[NC] = { 0, 1, 0 };
bit retired, freed, told, taken;
chan dkill = [0] of { bit };

inline attach(c) {
  do
  :: handed[c] -> break
  :: atomic { !handed[c] && !asks[c] -> asks[c] = 1 }
  od
}

active proctype Giver() {
  told = 1;
end:
  taken;
  lease[1] = 0
}

active proctype Taker() {
end:
  told;
end_attach:
  attach(0);
  lease[0] = 1;
  assert(!freed);                       /* the slot word: published or retired, generation as told */
  taken = 1;
  assert(!freed);
  assert(!freed);
  lease[0] = 0
}

active proctype Newcomer() {
end_attach:
  attach(2);
  do
  :: atomic { !retired -> skip };
     lease[2] = 1;
     if
     :: atomic { !retired -> skip }; assert(!freed); assert(!freed)
     :: atomic { retired -> skip }
     fi;
     lease[2] = 0
  :: retired -> break
  od
}

active proctype Daemon() {
  bit known[NC];                        /* the daemon's own list of pages */
#ifdef ONE_LIST
  bit list[NC];                         /* as of the moment when the slot was retired */
#define REMEMBER list[0] = known[0]; list[1] = known[1]; list[2] = known[2]
#define LOOK(i)  list[i]
#else
#define REMEMBER skip
#define LOOK(i)  known[i]
#endif
  byte i, clean, c;
  bit hit;
boot:
  {
    skip;
#ifndef EARLY_SCAN
    atomic { known[0] = listed[0]; known[1] = listed[1]; known[2] = listed[2]; REMEMBER };
#endif
end_loop:
    do
#ifdef EARLY_SCAN
    :: atomic { listed[0] && !known[0] -> known[0] = 1 }
    :: atomic { listed[1] && !known[1] -> known[1] = 1 }
    :: atomic { listed[2] && !known[2] -> known[2] = 1 }
#endif
    :: atomic { asks[0] -> c = 0 }; goto admit
    :: atomic { asks[2] -> c = 2 }; goto admit
    :: atomic { !retired -> retired = 1; REMEMBER }
    :: atomic { retired && !freed && i < NC ->                          /* look at the next page */
         hit = hit || (LOOK(i) && lease[i]); i++ }
    :: atomic { retired && !freed && i == NC ->                         /* the end of a pass */
         if :: hit -> clean = 0 :: else -> clean++ fi;
         i = 0; hit = 0;
         if :: clean >= PASSES -> freed = 1; clean = 0 :: else fi }
    od;
admit:
#ifdef LATE_PAGE
    handed[c] = 1;
#endif
    atomic { listed[c] = 1; known[c] = 1 };
#ifndef LATE_PAGE
    handed[c] = 1;
#endif
    atomic { asks[c] = 0; c = 0; goto end_loop }
  } unless { dkill?1 };
  atomic { known[0] = 0; known[1] = 0; known[2] = 0; asks[0] = 0; asks[2] = 0; i = 0; clean = 0; hit = 0; c = 0;
           goto boot }
}

active proctype Killer() {
end:
  do
  :: dkill!1
  od
}
#endif /* MODEL 9 */

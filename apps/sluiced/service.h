// service.h: the life of one daemon process: open, serve, drain, leave.
//
// Threads: run_service() owns the process: it opens and runs the store loop on the calling thread,
//          the admin server on its own threads, and a watcher thread that turns signals and time
//          into drain, stop and messages to systemd.
// Failure: the exit codes of common/exit_code.h; every failure is logged with what to do.
#pragma once

#include "sluiced/options.h"

namespace sluice::daemon {

int run_service(Invocation invocation);

}  // namespace sluice::daemon

// service.h: the life of one proxy process: open, serve, drain, leave.
//
// Threads: run_service() owns the process: it waits for signals on the calling thread; requests run
//          on the front's workers.
// Failure: the exit codes of common/exit_code.h; every failure is logged with what to do.
#pragma once

#include "sluice-proxy/options.h"

namespace sluice::proxy_app {

int run_service(Invocation invocation);

}  // namespace sluice::proxy_app

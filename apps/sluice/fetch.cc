#include "fetch.h"

#include <memory>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <fmt/format.h>

#include "http/upstream.h"

namespace sluice::cli {
namespace {

using boost::asio::awaitable;
using Clock = std::chrono::steady_clock;

struct Job {
  const FetchTarget* target = nullptr;
  std::unique_ptr<http::Upstream> upstream;
  Result<std::string> result = fail(Code::kTimedOut, "did not answer in time");
};

Error refused(unsigned status) {
  if (status == 401 || status == 403)
    return {.code = Code::kPermission, .message = "wants another token, or one at all"};
  return {.code = Code::kIo, .message = fmt::format("answers with status {}", status)};
}

awaitable<void> run(Job& job, Clock::time_point deadline, std::size_t bytes_max) {
  http::UpstreamRequest request{
      .method = "GET", .target = job.target->path, .headers = {}, .body = {}, .deadline = deadline};
  if (!job.target->token.empty())
    request.headers.emplace_back("Authorization", "Bearer " + job.target->token);
  auto call = co_await job.upstream->send(request, nullptr);
  if (!call) {
    job.result = std::unexpected(std::move(call.error()));
    co_return;
  }
  if ((*call)->status() != 200) {
    job.result = std::unexpected(refused((*call)->status()));
    co_return;
  }
  job.result = co_await (*call)->read_all(bytes_max);
}

}  // namespace

Status check_address(const std::string& address) {
  const auto endpoint = http::Endpoint::parse(address);
  if (!endpoint) return std::unexpected(endpoint.error());
  return {};
}

std::vector<Result<std::string>> fetch_all(std::span<const FetchTarget> targets,
                                           const FetchLimits& limits) {
  boost::asio::io_context io;
  std::vector<Job> jobs(targets.size());
  const auto deadline = Clock::now() + limits.timeout;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Job& job = jobs[i];
    job.target = &targets[i];
    auto endpoint = http::Endpoint::parse(targets[i].address);
    if (!endpoint) {
      job.result = std::unexpected(std::move(endpoint.error()));
      continue;
    }
    job.upstream = http::Upstream::make(io, {.endpoint = std::move(*endpoint),
                                             .connect_timeout = limits.timeout,
                                             .idle_max = std::chrono::milliseconds(0)});
    boost::asio::co_spawn(io, run(job, deadline, limits.bytes_max), boost::asio::detached);
  }
  io.run();
  std::vector<Result<std::string>> out;
  out.reserve(jobs.size());
  for (Job& job : jobs) {
    out.push_back(std::move(job.result));
    job.upstream.reset();  // before its io_context
  }
  return out;
}

}  // namespace sluice::cli

#include "measure.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include <fmt/format.h>
#include <unistd.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/clock.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kCallsMax = 20'000;
constexpr std::size_t kCallsMin = 3;
constexpr std::size_t kHeadersMax = 4096;  // of an object of one tensor, beside its elements
constexpr std::size_t kSourcesMax =
    4;  // buffers in rotation, so that a copy does not run from one warm cache line

struct Samples {
  std::vector<double> us;
};

double percentile(std::vector<double>& sorted, double share) {
  const auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
  return sorted[index];
}

Figure figure_of(std::string name, std::uint64_t bytes, Samples samples) {
  std::ranges::sort(samples.us);
  Figure figure{.name = std::move(name),
                .bytes = bytes,
                .calls = samples.us.size(),
                .us_p50 = percentile(samples.us, 0.5),
                .us_p99 = percentile(samples.us, 0.99),
                .bytes_per_second = 0};
  if (bytes > 0 && figure.us_p50 > 0)
    figure.bytes_per_second = static_cast<double>(bytes) * 1e6 / figure.us_p50;
  return figure;
}

// Calls `body(i)` until the budget is used; `after(i)` runs outside the measured time.
Result<Samples> sample(std::chrono::milliseconds budget,
                       const std::function<Status(std::size_t)>& body,
                       const std::function<Status(std::size_t)>& after = {}) {
  Samples samples;
  const Instant deadline = deadline_after(now(), budget);
  for (std::size_t i = 0; i < kCallsMax && (i < kCallsMin || now() < deadline); ++i) {
    const Instant begin = now();
    const Status done = body(i);
    const Instant end = now();
    if (!done) return std::unexpected(done.error());
    samples.us.push_back(static_cast<double>(end - begin) / 1e3);
    if (after) {
      if (const Status cleaned = after(i); !cleaned) return std::unexpected(cleaned.error());
    }
  }
  return samples;
}

class Bench {
 public:
  Bench(Client& client, std::uint64_t bytes, const MeasureOptions& options)
      : client_(client), bytes_(bytes), options_(options) {
    for (std::size_t i = 0; i < kSourcesMax; ++i) {
      sources_.emplace_back(bytes, static_cast<std::byte>(i + 1));
      targets_.emplace_back(bytes + kHeadersMax, std::byte{0});
    }
  }

  Result<std::vector<Figure>> run() {
    if (auto done = copies(); !done) return std::unexpected(done.error());
    if (auto done = puts("put", true); !done) return std::unexpected(done.error());
    if (auto done = puts("put, no checksum", false); !done) return std::unexpected(done.error());
    if (auto done = gets(); !done) return std::unexpected(done.error());
    return std::move(figures_);
  }

 private:
  Result<ObjectKey> key(std::size_t i) const {
    return ObjectKey::from_text(fmt::format("sluice-bench-{}-{}", ::getpid(), i));
  }

  Result<PutOutcome> put(const ObjectKey& key, std::size_t i, bool checksums) {
    // Each object's bytes differ, or the daemon would rightly call it a duplicate of nothing new to
    // measure.
    auto& source = sources_[i % kSourcesMax];
    std::memcpy(source.data(), &i, std::min(sizeof i, source.size()));
    const TensorInput tensor{.spec = {DType::kU8, {static_cast<std::int64_t>(bytes_)}},
                             .data = source};
    return client_.put(key, std::span(&tensor, 1), {},
                       {.timeout = options_.timeout, .checksums = checksums});
  }

  Status add(std::string name, std::uint64_t bytes, Result<Samples> samples) {
    if (!samples) return std::unexpected(samples.error());
    figures_.push_back(figure_of(std::move(name), bytes, std::move(*samples)));
    return {};
  }

  Status copies() {
    return add("memcpy", bytes_, sample(options_.time_per_case, [&](std::size_t i) -> Status {
                 copy_bytes(std::span(targets_[i % kSourcesMax]).first(bytes_),
                            sources_[(i + 1) % kSourcesMax]);
                 return {};
               }));
  }

  Status puts(std::string name, bool checksums) {
    const auto put_one = [&](std::size_t i) -> Status {
      const auto to = key(i);
      if (!to) return std::unexpected(to.error());
      const auto outcome = put(*to, i, checksums);
      if (!outcome) return std::unexpected(outcome.error());
      return {};
    };
    const auto remove_one = [&](std::size_t i) -> Status {
      const auto from = key(i);
      return from ? client_.remove(*from, options_.timeout) : std::unexpected(from.error());
    };
    return add(std::move(name), bytes_, sample(options_.time_per_case, put_one, remove_one));
  }

  Status gets() {
    const auto present = key(kCallsMax);
    if (!present) return std::unexpected(present.error());
    if (const auto outcome = put(*present, kCallsMax, true); !outcome)
      return std::unexpected(outcome.error());
    Status done = add("get, verified and copied", bytes_,
                      sample(options_.time_per_case, [&](std::size_t i) -> Status {
                        const auto lease = client_.acquire(*present);
                        if (!lease) return std::unexpected(lease.error());
                        const auto target = std::span(targets_[i % kSourcesMax]);
                        CHECK(lease->bytes().size() <= target.size());
                        return lease->copy_to(target.first(lease->bytes().size()));
                      }));
    if (done) {
      done = add("get, no copy", 0, sample(options_.time_per_case, [&](std::size_t) -> Status {
                   const auto lease = client_.get(*present);
                   return lease ? Status{} : std::unexpected(lease.error());
                 }));
    }
    if (done) {
      done = add("look-up", 0, sample(options_.time_per_case, [&](std::size_t) -> Status {
                   return client_.lookup(*present) == Presence::kPresent
                              ? Status{}
                              : fail(Code::kNotFound,
                                     "the object just put was evicted: the arena is too small or "
                                     "too busy to measure");
                 }));
    }
    const Status removed = client_.remove(*present, options_.timeout);
    return done ? removed : done;
  }

  Client& client_;
  std::uint64_t bytes_;
  MeasureOptions options_;
  std::vector<std::vector<std::byte>> sources_, targets_;
  std::vector<Figure> figures_;
};

}  // namespace

Result<std::vector<Figure>> measure_paths(Client& client, std::uint64_t object_bytes,
                                          const MeasureOptions& options) {
  return Bench(client, object_bytes, options).run();
}

}  // namespace sluice::cli

// copy: large objects in and out, beside memcpy between the same extents and buffers.
//
//   fill      puts objects 0 .. --objects
//   put       triples: memcpy into a granted extent, put without checksums, put with checksums; in changing order
//   read      a new client's passes over all objects: acquired and copied out; the first sample is the first pass
//   write     the same, putting as many new objects as the arena holds
//   verified  pairs: the first get of an object, verified and copied out; memcpy of another object of the same arena
#include <cstring>
#include <deque>
#include <optional>

#include "rig.h"

namespace sluice::bench {
namespace {

constexpr std::size_t kBuffers = 9;  // odd, so that pairs and triples rotate over all of them
constexpr std::size_t kOpenBaselines =
    4;  // extents of the baseline that wait before they are given back
constexpr std::uint64_t kPutNumbers = 1u << 20;  // numbers of objects that measured puts make
constexpr std::uint64_t kBaselineNumbers = 1u
                                           << 21;  // of reservations that the baseline copies into

void fill(const Options& o) {
  const auto client = attach(o);
  RotatingBuffers buffers(kBuffers, o.bytes);
  for (std::uint64_t i = 0; i < o.objects; ++i) put(*client, i, buffers.next());
}

// Extents for the baseline come from the same places as those of puts: each is written by both sides in turn.
class Baseline {
 public:
  Baseline(Client& client, std::uint64_t bytes) : client_(client) {
    specs_.push_back({.name = "tensor",
                      .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(bytes)}}});
  }
  std::span<std::byte> next() {
    if (open_.size() == kOpenBaselines) {
      must(open_.front().abandon(), "abandon");
      open_.pop_front();
    }
    open_.push_back(must(client_.reserve(key_of(kBaselineNumbers + turn_++), specs_), "reserve"));
    return open_.back().data(0);
  }

 private:
  Client& client_;
  std::vector<NamedTensorSpec> specs_;
  std::deque<Writer> open_;
  std::uint64_t turn_ = 0;
};

void measure_put(const Options& o) {
  RotatingBuffers buffers(kBuffers, o.bytes);
  const auto client = attach(o);
  wait_until_mapped(client->stats().arena_bytes);
  Baseline baseline(*client, o.bytes);
  Series copied("memcpy_ns", "ns"), plain("put_plain_ns", "ns"), summed("put_ns", "ns");
  std::uint64_t number = kPutNumbers + o.seed * o.count * 4;
  const auto timed_put = [&](bool checksums) {
    const ObjectKey key = key_of(number++);
    const TensorInput input = tensor_over(buffers.next());
    const PutOptions options{.checksums = checksums};
    const Instant start = now();
    const auto done = client->put(key, std::span(&input, 1), {}, options);
    const Instant end = now();
    if (!done || *done != PutOutcome::kPublished)
      die("put: " + (done ? "duplicate" : done.error().message));
    return static_cast<double>(end - start);
  };
  for (std::uint64_t i = 0; i < o.count + 2; ++i) {
    double copy_ns = 0, plain_ns = 0, put_ns = 0;
    for (std::uint64_t step = 0; step < 3; ++step) {
      switch ((i + step) % 3) {
        case 0: {
          const auto to = baseline.next();
          const auto from = buffers.next();
          const Instant start = now();
          std::memcpy(to.data(), from.data(), from.size());
          copy_ns = static_cast<double>(now() - start);
          break;
        }
        case 1:
          plain_ns = timed_put(false);
          break;
        default:
          put_ns = timed_put(true);
          break;
      }
    }
    if (i < 2) continue;
    copied.add(copy_ns), plain.add(plain_ns), summed.add(put_ns);
  }
  copied.print(), plain.print(), summed.print();
}

void measure_read_passes(const Options& o) {
  RotatingBuffers buffers(kBuffers, o.bytes);
  std::vector<ObjectKey> keys;
  for (std::uint64_t i = 0; i < o.objects; ++i) keys.push_back(key_of(i));
  Series passes("read_pass_ns", "ns");
  const auto client = attach(o);
  for (std::uint64_t pass = 0; pass < o.count + 1; ++pass) {
    const Instant start = now();
    for (const ObjectKey& key : keys) {
      const Lease lease = must(client->acquire(key), "acquire");
      std::memcpy(buffers.next().data(), lease.bytes().data(), o.bytes);
    }
    passes.add_ns(start, now());
  }
  passes.print();
}

void measure_write_passes(const Options& o) {
  RotatingBuffers buffers(kBuffers, o.bytes);
  Series passes("write_pass_ns", "ns");
  const auto client = attach(o);
  std::uint64_t number = kPutNumbers * 4 + o.seed * (o.count + 1) * o.objects;
  for (std::uint64_t pass = 0; pass < o.count + 1; ++pass) {
    const Instant start = now();
    for (std::uint64_t i = 0; i < o.objects; ++i) put(*client, number++, buffers.next());
    passes.add_ns(start, now());
  }
  passes.print();
}

void measure_verified(const Options& o) {
  RotatingBuffers buffers(kBuffers, o.bytes + kPageBytes);
  const auto client = attach(o);
  wait_until_mapped(client->stats().arena_bytes);
  Series copied("memcpy_out_ns", "ns"), verified("verified_get_ns", "ns");
  for (std::uint64_t i = 0; i + 1 < o.objects; i += 2) {
    // Which object of a pair is verified changes with the seed, and which side goes first with the pair.
    const ObjectKey mine = key_of(i + o.seed % 2);
    const ObjectKey other = key_of(i + 1 - o.seed % 2);
    const auto verify = [&] {
      const auto to = buffers.next();
      const Instant start = now();
      Lease lease = must(client->acquire(mine), "acquire");
      if (lease.verified()) die("the object was verified before");
      must(lease.copy_to(to.first(lease.bytes().size())), "copy out");
      lease.release();
      verified.add_ns(start, now());
    };
    const auto copy = [&] {
      const auto to = buffers.next();
      const Lease lease = must(client->acquire(other), "acquire");
      const Instant start = now();
      std::memcpy(to.data(), lease.bytes().data(), lease.bytes().size());
      copied.add_ns(start, now());
    };
    if (i / 2 % 2 == 0) {
      verify(), copy();
    } else {
      copy(), verify();
    }
  }
  copied.print(), verified.print();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  return run_command(argc, argv,
                     {{"fill", fill},
                      {"put", measure_put},
                      {"read", measure_read_passes},
                      {"write", measure_write_passes},
                      {"verified", measure_verified}});
}

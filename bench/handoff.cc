// handoff: KV from one paged cache into another through the arena, layer group by layer group.
//
//   copy      pairs: a whole hand-off (reserve, gather, publish with checksums, get, verify, scatter, commit, remove) of
//             --bytes; two memcpys of as many bytes. Beside the time on the clock, this thread's
//             on a processor
//   overlap   triples: the hand-off alone; a prefill that computes alone; both, the groups handed off as they are
//             computed. Computing is a wait, as for a device. Decode is another client on another thread.
//
// The caches are those of a model of 32 layers, 8 heads of 128 bf16 values, K and V apart, blocks of 16 tokens: 64 KiB a
// block and layer. Blocks lie in random order.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include <time.h>

#include "kv/handoff_key.h"
#include "kv/part.h"
#include "rig.h"

namespace sluice::bench {
namespace {

constexpr std::uint32_t kLayers = 32;
constexpr std::uint32_t kGroupLayers = 4;
constexpr std::uint32_t kGroups = kLayers / kGroupLayers;
constexpr kv::BlockShape kShape{.planes = 2, .heads = 8, .block_tokens = 16, .entry_bytes = 256};
constexpr std::uint64_t kBlockBytes = 2 * 8 * 16 * 256;
// One layer group's compute: prefill of 500 tokens through four layers of an 8B model takes a device longer.
constexpr std::uint64_t kGroupComputeNs = 8 * kNsPerMs;

// All layers' blocks of one engine, twice as many as a request needs.
class Cache {
 public:
  Cache(std::uint32_t blocks, std::uint64_t seed)
      : memory_(1, std::uint64_t{kLayers} * 2 * blocks * kBlockBytes),
        ids_(std::size_t{2} * blocks) {
    const auto bytes = memory_.next();
    const std::uint64_t layer_bytes = 2 * blocks * kBlockBytes;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      layers_.push_back({.base = bytes.data() + layer * layer_bytes,
                         .bytes = layer_bytes,
                         .blocks = 2 * blocks,
                         .plane_stride = layer_bytes / 2,
                         .block_stride = kBlockBytes / 2,
                         .head_stride = kBlockBytes / 16,
                         .token_stride = 256});
    }
    std::iota(ids_.begin(), ids_.end(), 0u);
    std::ranges::shuffle(ids_, std::mt19937_64(seed));
    ids_.resize(blocks);
  }
  kv::Transfer group(std::uint32_t number) const {
    return {.part = kShape,
            .paged = kShape,
            .layers = std::span(layers_).subspan(number * kGroupLayers, kGroupLayers),
            .block_ids = ids_,
            .part_blocks = ids_.size(),
            .part_first_block = 0,
            .heads = {.part_first = 0, .paged_first = 0, .count = kShape.heads}};
  }

 private:
  RotatingBuffers memory_;
  std::vector<kv::PagedLayer> layers_;
  std::vector<std::uint32_t> ids_;
};

// One hand-off after another between two caches, each side a client of its own.
class Handoffs {
 public:
  explicit Handoffs(const Options& o)
      : blocks_(static_cast<std::uint32_t>(o.bytes / kBlockBytes / kLayers)),
        prefill_(attach(o)),
        decode_(attach(o)),
        from_(blocks_, o.seed),
        to_(blocks_, o.seed + 1) {
    if (blocks_ == 0) die("--bytes is less than one block of all layers");
    wait_until_mapped(prefill_->stats().arena_bytes);
  }

  void begin() {
    const std::string id = fmt_id(turn_++);
    keys_.emplace(must(kv::HandoffKeys::make("default", id), "name"));
  }
  void write(std::uint32_t group) {
    const auto bytes = static_cast<std::int64_t>(
        must(kv::part_bytes(kShape, kGroupLayers, blocks_), "part_bytes"));
    const NamedTensorSpec spec{.name = "kv", .spec = {.dtype = DType::kU8, .shape = {bytes}}};
    auto writer =
        must(prefill_->reserve(keys_->part({.sequence = group}), std::span(&spec, 1)), "reserve");
    must(kv::write_part(writer, 0, from_.group(group)), "write_part");
    if (must(writer.publish(), "publish") != PutOutcome::kPublished) die("publish: a duplicate");
  }
  void read(std::uint32_t group) {
    const ObjectKey key = keys_->part({.sequence = group});
    if (must(decode_->wait(std::span(&key, 1), std::chrono::seconds(10)), "wait").front() !=
        Presence::kPresent)
      die("a part did not come");
    const Lease lease = must(decode_->acquire(key), "acquire");
    const auto tensors = must(lease.tensors(), "tensors");
    must(kv::read_part(lease, tensors.front(), to_.group(group), Verify::kOnce), "read_part");
  }
  void end() { must(decode_->invalidate(keys_->prefix()), "invalidate"); }

  std::uint64_t one_after_the_other() {
    begin();
    const Instant start = now();
    for (std::uint32_t group = 0; group < kGroups; ++group) write(group);
    for (std::uint32_t group = 0; group < kGroups; ++group) read(group);
    const Instant done = now();
    end();
    return done - start;
  }

  // Compute, a writer and a reader beside each other. Until the reader has everything.
  std::uint64_t beside_compute() {
    begin();
    std::atomic<std::uint32_t> computed = 0;
    const Instant start = now();
    std::jthread writer([&] {
      for (std::uint32_t group = 0; group < kGroups; ++group) {
        for (std::uint32_t seen; (seen = computed.load()) <= group;) computed.wait(seen);
        write(group);
      }
    });
    std::jthread reader([&] {
      for (std::uint32_t group = 0; group < kGroups; ++group) read(group);
    });
    for (std::uint32_t group = 0; group < kGroups; ++group) {
      compute();
      ++computed;
      computed.notify_one();
    }
    reader.join();
    const Instant done = now();
    writer.join();
    end();
    return done - start;
  }

  static std::uint64_t compute_alone() {
    const Instant start = now();
    for (std::uint32_t group = 0; group < kGroups; ++group) compute();
    return now() - start;
  }

 private:
  static void compute() {
    const timespec time{.tv_sec = 0, .tv_nsec = kGroupComputeNs};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  }
  static std::string fmt_id(std::uint64_t number) {
    std::string id(kv::kHandoffIdDigits, '0');
    for (std::size_t at = id.size(); number != 0; number >>= 4)
      id[--at] = "0123456789abcdef"[number & 15];
    return id;
  }

  std::uint32_t blocks_;
  std::unique_ptr<Client> prefill_, decode_;
  Cache from_, to_;
  std::optional<kv::HandoffKeys> keys_;
  std::uint64_t turn_ = 1;
};

// Of this thread: what a busy machine adds to the time on the clock does not count.
std::uint64_t processor_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000 * kNsPerMs +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void measure_copy(const Options& o) {
  Handoffs handoffs(o);
  RotatingBuffers buffers(3, o.bytes);
  Series copies("two_memcpys_ns", "ns"), handed("handoff_ns", "ns");
  Series copies_processor("two_memcpys_processor_ns", "ns");
  Series handed_processor("handoff_processor_ns", "ns");
  for (std::uint64_t i = 0; i < o.count + 2; ++i) {
    const auto source = buffers.next(), middle = buffers.next(), target = buffers.next();
    const std::uint64_t processor = processor_ns();
    const Instant start = now();
    std::memcpy(middle.data(), source.data(), source.size());
    std::memcpy(target.data(), middle.data(), middle.size());
    const auto copied = static_cast<double>(now() - start);
    const std::uint64_t between = processor_ns();
    const auto took = static_cast<double>(handoffs.one_after_the_other());
    const std::uint64_t end = processor_ns();
    if (i < 2) continue;  // the arena's pages and the caches' are there by then
    copies.add(copied), handed.add(took);
    copies_processor.add_ns(processor, between), handed_processor.add_ns(between, end);
  }
  copies.print(), handed.print(), copies_processor.print(), handed_processor.print();
}

void measure_overlap(const Options& o) {
  Handoffs handoffs(o);
  Series alone("handoff_ns", "ns"), computing("compute_ns", "ns"), both("overlapped_ns", "ns");
  for (std::uint64_t i = 0; i < o.count + 2; ++i) {
    const auto handoff = static_cast<double>(handoffs.one_after_the_other());
    const auto compute = static_cast<double>(Handoffs::compute_alone());
    const auto beside = static_cast<double>(handoffs.beside_compute());
    if (i < 2) continue;
    alone.add(handoff), computing.add(compute), both.add(beside);
  }
  alone.print(), computing.print(), both.print();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = read_options(argc, argv);
  if (options.command == "copy") {
    measure_copy(options);
  } else if (options.command == "overlap") {
    measure_overlap(options);
  } else {
    die("commands: copy, overlap");
  }
  return 0;
}

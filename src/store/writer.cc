#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/client.h>

#include "base/checksum.h"
#include "store/attachment.h"
#include "store/runs.h"

namespace sluice {

Writer::Writer(Writer&& other) noexcept
    : attachment_(std::move(other.attachment_)),
      tensors_(std::move(other.tensors_)),
      digests_(std::move(other.digests_)),
      token_(std::exchange(other.token_, 0)),
      checksums_(other.checksums_) {}

Writer& Writer::operator=(Writer&& other) noexcept {
  if (this != &other) {
    [[maybe_unused]] const auto abandoned = abandon();
    attachment_ = std::move(other.attachment_);
    tensors_ = std::move(other.tensors_);
    digests_ = std::move(other.digests_);
    checksums_ = other.checksums_;
    token_ = std::exchange(other.token_, 0);
  }
  return *this;
}

Writer::~Writer() {
  [[maybe_unused]] const auto abandoned = abandon();
}

std::span<std::byte> Writer::bytes() const noexcept {
  return attachment_ != nullptr && attachment_->ours() ? attachment_->write_bytes(token_)
                                                       : std::span<std::byte>{};
}

std::span<std::byte> Writer::data(std::size_t index) const noexcept {
  const auto object = bytes();
  if (object.empty() || index >= tensors_.size()) return {};
  return object.subspan(tensors_[index].data_offset, tensors_[index].data_bytes);
}

Status Writer::fill(std::size_t index, const RunSource& runs) {
  const auto object = bytes();
  if (object.empty()) {
    return fail(Code::kDetached,
                "this writer has been published or abandoned, or belongs to the parent of a fork");
  }
  if (index >= tensors_.size()) {
    return fail(Code::kInvalidArgument,
                fmt::format("tensor {} of {} cannot be filled", index, tensors_.size()));
  }
  digests_.clear();
  const TensorView& tensor = tensors_[index];
  if (!checksums_)
    return store::fill_plain(object.subspan(tensor.data_offset, tensor.data_bytes), runs);
  std::vector<std::uint64_t> digests(chunk_count(object.size()));
  auto filled = store::fill_and_hash(object, tensor, runs, digests);
  if (filled) digests_ = std::move(digests);
  return filled;
}

Result<PutOutcome> Writer::publish(std::optional<std::chrono::milliseconds> timeout) {
  if (attachment_ == nullptr || !attachment_->ours()) {
    return fail(Code::kDetached,
                "this writer has been published or abandoned, or belongs to the parent of a fork");
  }
  const auto attachment = std::exchange(attachment_, nullptr);
  const auto write = attachment->take_write(std::exchange(token_, 0));
  if (!write) return fail(Code::kDetached, "this writer has been published or abandoned");
  const auto object = attachment->writable(write->grant).first(write->plan.bundle.object_bytes);
  std::vector<std::uint64_t> digests = std::exchange(digests_, {});
  if (write->plan.checksums && digests.empty()) {
    digests.resize(chunk_count(object.size()));
    hash_chunks(object, digests);
  }
  return attachment->publish(
      write->grant, write->plan, digests,
      deadline_after(now(), timeout ? std::chrono::nanoseconds(*timeout)
                                    : std::chrono::nanoseconds(write->timeout_ns)));
}

Status Writer::abandon() {
  const auto attachment = std::exchange(attachment_, nullptr);
  if (attachment == nullptr || !attachment->ours()) return {};
  if (const auto write = attachment->take_write(std::exchange(token_, 0)))
    attachment->abandon(write->grant);
  return {};
}

}  // namespace sluice

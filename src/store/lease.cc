#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/client.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "store/attachment.h"
#include "store/runs.h"
#include "tensor/attributes.h"
#include "tensor/bundle.h"

namespace sluice {
namespace {

Error bad_chunk(std::size_t index) {
  return {Code::kCorrupt, Drop::kObject,
          fmt::format("chunk {} of 256 KiB does not match its checksum", index)};
}

// What is wrong with an object is counted where it is found.
Error counted(store::Attachment& attachment, Error error) {
  attachment.counters().corrupt.fetch_add(1, std::memory_order_relaxed);
  return error;
}

Result<std::span<const std::uint64_t>> digests_of(store::Attachment& attachment,
                                                  const Descriptor& descriptor) {
  auto meta = attachment.meta_of(descriptor);
  if (!meta) return std::unexpected(counted(attachment, std::move(meta.error())));
  const store::Record& record = attachment.record_of(descriptor);
  if ((record.flags & store::kHasChecksums) == 0) return std::span<const std::uint64_t>{};
  return attachment.digests_in(*meta, record);
}

Status compare(store::Attachment& attachment, std::span<const std::uint64_t> expected,
               std::span<const std::uint64_t> found) {
  const auto differs = std::ranges::mismatch(expected, found);
  if (differs.in1 == expected.end()) return {};
  const auto chunk = static_cast<std::size_t>(differs.in1 - expected.begin());
  return std::unexpected(counted(attachment, bad_chunk(chunk)));
}

}  // namespace

Lease::Lease(Lease&& other) noexcept
    : attachment_(std::move(other.attachment_)),
      descriptor_(other.descriptor_),
      lease_index_(other.lease_index_),
      private_view_(std::exchange(other.private_view_, false)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    attachment_ = std::move(other.attachment_);
    descriptor_ = other.descriptor_;
    lease_index_ = other.lease_index_;
    private_view_ = std::exchange(other.private_view_, false);
  }
  return *this;
}

Lease::~Lease() {
  release();
}

void Lease::release() noexcept {
  if (attachment_ == nullptr) return;
  attachment_->end_lease(lease_index_, descriptor_, std::exchange(private_view_, false));
  attachment_.reset();
}

std::span<const std::byte> Lease::bytes() const noexcept {
  return attachment_ != nullptr && attachment_->ours() ? attachment_->shared_bytes(descriptor_)
                                                       : std::span<const std::byte>{};
}

std::span<std::byte> Lease::private_bytes() const noexcept {
  if (attachment_ == nullptr || !attachment_->ours()) return {};
  const auto view = attachment_->private_bytes(descriptor_);
  if (!view.empty()) private_view_ = true;
  return view;
}

Result<std::vector<TensorView>> Lease::tensors() const {
  if (bytes().empty()) return fail(Code::kDetached, "this lease has ended");
  const auto meta = attachment_->meta_of(descriptor_);
  if (!meta) return std::unexpected(meta.error());
  const store::Record& record = attachment_->record_of(descriptor_);
  return tensor::parse_bundle(bytes(), meta->first(record.attribute_bytes));
}

Result<Attributes> Lease::attributes() const {
  if (bytes().empty()) return fail(Code::kDetached, "this lease has ended");
  const auto meta = attachment_->meta_of(descriptor_);
  if (!meta) return std::unexpected(meta.error());
  return tensor::decode_attributes(
      meta->first(attachment_->record_of(descriptor_).attribute_bytes));
}

bool Lease::has_checksums() const noexcept {
  return attachment_ != nullptr && attachment_->ours() &&
         (attachment_->record_of(descriptor_).flags & store::kHasChecksums) != 0;
}

bool Lease::verified() const noexcept {
  return attachment_ != nullptr && attachment_->ours() && attachment_->verified(descriptor_);
}

Status Lease::verify(Verify mode) const {
  if (bytes().empty()) return fail(Code::kDetached, "this lease has ended");
  if (mode == Verify::kNever || (mode == Verify::kOnce && verified())) return {};
  const auto expected = digests_of(*attachment_, descriptor_);
  if (!expected) return std::unexpected(expected.error());
  if (!expected->empty()) {
    std::vector<std::uint64_t> found(expected->size());
    hash_chunks(bytes(), found);
    if (auto same = compare(*attachment_, *expected, found); !same) return same;
  }
  attachment_->set_verified(descriptor_);
  return {};
}

Status Lease::read(std::uint64_t offset, std::span<std::byte> to) const {
  const auto object = bytes();
  if (object.empty()) return fail(Code::kDetached, "this lease has ended");
  if (!fits(offset, to.size(), object.size())) {
    return fail(Code::kInvalidArgument,
                fmt::format("range of {} bytes at {} does not lie in the object's {} bytes",
                            to.size(), offset, object.size()));
  }
  if (to.empty()) return {};
  std::ranges::copy(object.subspan(offset, to.size()), to.begin());
  if (verified() || !has_checksums()) return {};
  const auto expected = digests_of(*attachment_, descriptor_);
  if (!expected) return std::unexpected(expected.error());
  for (std::size_t chunk = offset / kChunkBytes; chunk <= (offset + to.size() - 1) / kChunkBytes;
       ++chunk) {
    const std::size_t at = chunk * kChunkBytes;
    if (hash64(object.subspan(at, std::min(kChunkBytes, object.size() - at))) !=
        (*expected)[chunk]) {
      return std::unexpected(counted(*attachment_, bad_chunk(chunk)));
    }
  }
  return {};
}

Status Lease::copy_to(std::span<std::byte> to) const {
  const auto object = bytes();
  if (object.empty()) return fail(Code::kDetached, "this lease has ended");
  if (to.size() != object.size()) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("the object has {} bytes, room for {} was given", object.size(), to.size()));
  }
  if (verified() || !has_checksums()) {
    copy_bytes(to, object);
    return {};
  }
  const auto expected = digests_of(*attachment_, descriptor_);
  if (!expected) return std::unexpected(expected.error());
  std::vector<std::uint64_t> found(expected->size());
  copy_and_hash(to, object, found);
  if (auto same = compare(*attachment_, *expected, found); !same) return same;
  attachment_->set_verified(descriptor_);
  return {};
}

Status Lease::copy_runs(const TensorView& tensor, const RunSource& runs, Verify mode) const {
  const auto object = bytes();
  if (object.empty()) return fail(Code::kDetached, "this lease has ended");
  if (!fits(tensor.data_offset, tensor.data_bytes, object.size())) {
    return fail(Code::kInvalidArgument, "the tensor is not one of this object's");
  }
  store::RunsOut out(object, tensor, runs);
  if (mode == Verify::kNever || (mode == Verify::kOnce && verified()))
    return out.copy_until(object.size());
  const auto expected = digests_of(*attachment_, descriptor_);
  if (!expected) return std::unexpected(expected.error());
  if (expected->empty()) {
    if (auto copied = out.copy_until(object.size()); !copied) return copied;
  }
  for (std::size_t chunk = 0; chunk < expected->size(); ++chunk) {
    const std::size_t at = chunk * kChunkBytes;
    const auto bytes_of_chunk = object.subspan(at, std::min(kChunkBytes, object.size() - at));
    std::uint64_t found = 0;
    hash_chunks(bytes_of_chunk, std::span(&found, 1));
    if (found != (*expected)[chunk])
      return std::unexpected(counted(*attachment_, bad_chunk(chunk)));
    if (auto copied = out.copy_until(at + bytes_of_chunk.size()); !copied) return copied;
  }
  attachment_->set_verified(descriptor_);
  return {};
}

}  // namespace sluice

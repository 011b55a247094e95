#include <algorithm>
#include <utility>

#include <sluice/device.h>

#include "base/check.h"

namespace sluice {

Completion& Completion::operator=(Completion&& other) noexcept {
  if (this != &other) {
    if (state_ != nullptr) static_cast<void>(state_->wait());
    state_ = std::move(other.state_);
  }
  return *this;
}

Completion::~Completion() {
  // A failed copy has ended too; whoever cares about its outcome called wait().
  if (state_ != nullptr) static_cast<void>(state_->wait());
}

Status Completion::wait() {
  if (state_ == nullptr) return {};
  return state_->wait();
}

namespace {

Status require_address(DeviceAddress address, std::size_t bytes) {
  if (address.value == 0 && bytes != 0) {
    return fail(Code::kInvalidArgument,
                "the device address of a copy is zero; pass the tensor's data pointer");
  }
  return {};
}

// Calls copy(piece, offset) for consecutive pieces of at most one staging buffer.
template <class Copy>
Status in_pieces(std::size_t bytes, std::size_t staging_bytes, const Copy& copy) {
  CHECK(staging_bytes != 0);
  const std::size_t piece_max = std::min(bytes, staging_bytes);
  const auto staging = std::make_unique_for_overwrite<std::byte[]>(piece_max);
  for (std::size_t offset = 0; offset < bytes;) {
    const std::size_t piece = std::min(piece_max, bytes - offset);
    if (auto copied = copy(std::span(staging.get(), piece), offset); !copied) return copied;
    offset += piece;
  }
  return {};
}

}  // namespace

Result<Completion> Device::copy_out(std::span<std::byte> to, DeviceAddress from, Stream stream) {
  if (auto valid = require_address(from, to.size()); !valid) return std::unexpected(valid.error());
  auto copied = in_pieces(
      to.size(), staging_bytes(), [&](std::span<std::byte> staging, std::size_t offset) -> Status {
        if (auto moved = download(staging, DeviceAddress{from.value + offset}, stream); !moved)
          return moved;
        std::ranges::copy(staging, to.begin() + static_cast<std::ptrdiff_t>(offset));
        return {};
      });
  if (!copied) return std::unexpected(copied.error());
  return Completion{};
}

Result<Completion> Device::copy_in(DeviceAddress to, std::span<const std::byte> from,
                                   Stream stream) {
  if (auto valid = require_address(to, from.size()); !valid) return std::unexpected(valid.error());
  auto copied =
      in_pieces(from.size(), staging_bytes(),
                [&](std::span<std::byte> staging, std::size_t offset) -> Status {
                  std::ranges::copy(from.subspan(offset, staging.size()), staging.begin());
                  return upload(DeviceAddress{to.value + offset}, staging, stream);
                });
  if (!copied) return std::unexpected(copied.error());
  return Completion{};
}

Status Device::register_host(std::span<std::byte>) {
  return {};
}
Status Device::unregister_host(std::span<std::byte>) {
  return {};
}
Status Device::synchronise(Stream) {
  return {};
}

}  // namespace sluice

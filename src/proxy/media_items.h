// media_items.h: the media of one request, from what the client sent to what the stages are told.
//
// Invariant: every uuid that reaches an engine is this proxy's own digest of tenant and content, or
//            the identifier that an encoder reported for a remote URL.
// Threads:   one owner.
#pragma once

#include <string>
#include <vector>

#include <sluice/client.h>

#include "proxy/core.h"
#include "proxy/splice.h"

namespace sluice::proxy {

struct MediaItem {
  std::size_t part = 0;    // index into ScannedRequest::media
  std::string uuid;        // empty: a remote URL
  std::string identifier;  // what the engines call it; empty: not known
  std::string metadata;    // JSON; empty: it must be sent with its media
  std::string entry;       // of ec_transfer_params; empty: none
};

struct RequestMedia {
  std::string arguments;  // digest of processor arguments; empty: the request carries none
  std::vector<MediaItem> items;
  std::vector<Lease> leases;  // on features that the request counts on, until its first content

  bool has_references() const noexcept;
};

// Names every item and binds the caller's own uuids. 400 for one that stands for other content.
Outcome<RequestMedia> name_media(Core& core, const ScannedRequest& request);

// What replaces the media parts: references where the feature is known, else the media with our
// uuid.
std::vector<Edit> media_edits(const ScannedRequest& request, const RequestMedia& media,
                              bool references);

// "ec_transfer_params":{...}; empty when no item has an entry, or unless `features`.
std::string feature_params(const RequestMedia& media, bool features);

}  // namespace sluice::proxy

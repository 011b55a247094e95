#include "proxy/media_items.h"

#include <algorithm>

#include <fmt/format.h>

#include "proxy/media_digest.h"

namespace sluice::proxy {
namespace {

bool is_image(const MediaPart& part) {
  return part.type == "image_url" || part.type == "input_image" || part.type == "image_embeds";
}

// Whether the item can travel as a reference: engines know those for images only, and a remote URL
// would get another identifier when processor arguments are on the request.
bool can_be_reference(const MediaPart& part, const MediaItem& item, const RequestMedia& media) {
  if (item.metadata.empty() || item.identifier.empty() || !is_image(part)) return false;
  return !part.remote || media.arguments.empty();
}

}  // namespace

bool RequestMedia::has_references() const noexcept {
  return std::ranges::any_of(items, [](const MediaItem& item) { return !item.metadata.empty(); });
}

Outcome<RequestMedia> name_media(Core& core, const ScannedRequest& request) {
  RequestMedia media;
  std::string arguments;
  for (const std::string_view name : {"mm_processor_kwargs", "media_io_kwargs"}) {
    const std::string_view text = request.text_of(name);
    if (!text.empty() && text != "null" && text != "{}")
      arguments += fmt::format("{}={};", name, text);
  }
  if (!arguments.empty()) media.arguments = text_digest(arguments);
  const std::string& tenant = core.settings.tenant;
  for (std::size_t i = 0; i < request.media.size(); ++i) {
    const MediaPart& part = request.media[i];
    MediaItem item{.part = i};
    const std::string_view data = part.data.of(request.body);
    if (!part.remote) item.uuid = media_digest(tenant, part.type, data);
    if (part.uuid_value.end != 0) {
      // A remote URL's content is not known here: its alias is bound to the URL.
      const std::string content = part.remote ? text_digest(data) : item.uuid;
      const std::string alias = text_digest(part.uuid_value.of(request.body));
      if (!core.aliases.bind(tenant, alias, content)) {
        return std::unexpected(OpenAiError{.status = 400,
                                           .message = "this uuid was used for other media before",
                                           .param = "uuid",
                                           .code = "uuid_mismatch"});
      }
    }
    media.items.push_back(std::move(item));
  }
  return media;
}

std::vector<Edit> media_edits(const ScannedRequest& request, const RequestMedia& media,
                              bool references) {
  std::vector<Edit> edits;
  for (const MediaItem& item : media.items) {
    const MediaPart& part = request.media[item.part];
    if (references && can_be_reference(part, item, media)) {
      edits.push_back(
          {part.part,
           fmt::format(R"({{"type":"image_embeds","image_embeds":{},"uuid":{}}})", item.metadata,
                       json_string(part.remote ? item.identifier : item.uuid))});
    } else {
      Edit edit = uuid_edit(part, item.uuid);
      if (!edit.text.empty() || edit.span.begin != edit.span.end) edits.push_back(std::move(edit));
    }
  }
  return edits;
}

std::string feature_params(const RequestMedia& media, bool features) {
  if (!features) return {};
  std::string out;
  std::vector<std::string_view> named;
  for (const MediaItem& item : media.items) {
    if (item.entry.empty() || std::ranges::find(named, item.identifier) != named.end()) continue;
    named.push_back(item.identifier);
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", json_string(item.identifier), item.entry);
  }
  return out.empty() ? out : fmt::format(R"("ec_transfer_params":{{{}}})", out);
}

}  // namespace sluice::proxy

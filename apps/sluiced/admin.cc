#include "sluiced/admin.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "common/json_view.h"
#include "common/quantity.h"
#include "http/auth.h"
#include "sluiced/exposition.h"

namespace sluice::daemon {
namespace {

using http::Admission;
using http::Request;
using http::RequestHead;
using http::Response;
using json = nlohmann::ordered_json;

constexpr std::string_view kObjects = "/v1/objects";
constexpr std::string_view kObject = "/v1/objects/";
constexpr std::uint64_t kLoopAgeMaxNs =
    5'000 * kNsPerMs;  // an older heartbeat means a stuck store loop
constexpr std::size_t kListDefault = 1000;
constexpr std::uint64_t kListMax = 100'000;

Response json_response(unsigned status, const json& body) {
  Response response;
  response.status = status;
  response.body = app::dump(body) + "\n";
  return response;
}

Response refusal(unsigned status, std::string_view code, std::string_view message) {
  return json_response(status, {{"error", code}, {"message", message}});
}

unsigned status_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return 400;
    case Code::kPermission:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kPending:
    case Code::kConflict:
      return 409;
    case Code::kLimit:
      return 429;
    case Code::kOutOfSpace:
      return 507;
    case Code::kUnavailable:
    case Code::kDetached:
      return 503;
    case Code::kTimedOut:
      return 504;
    default:
      return 500;
  }
}

Response refusal(const Error& error) {
  return json_response(status_of(error.code), app::to_json(error));
}

bool is_object(const std::string& path) {
  return path.starts_with(kObject) && path.size() > kObject.size();
}

Response method_refused(std::string_view allowed) {
  Response response =
      refusal(405, "method_not_allowed", fmt::format("this address takes {}", allowed));
  response.headers.emplace_back("Allow", std::string(allowed));
  return response;
}

std::uint64_t loop_age_ns(const store::DaemonHealth& health) {
  const Instant time = now();
  return health.loop_heartbeat_ns < time ? time - health.loop_heartbeat_ns : 0;
}

// A browser that was lured to a name which resolves to 127.0.0.1 sends that name: only names of
// this machine are served.
bool host_is_local(std::string_view host) {
  if (host.starts_with('[')) return host.starts_with("[::1]");
  host = host.substr(0, host.find(':'));
  return host.empty() || host == "localhost" || host.starts_with("127.");
}

Result<const TensorView*> choose_tensor(const std::vector<TensorView>& tensors,
                                        const std::string& name) {
  std::string names;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == name || (name.empty() && tensors.size() == 1)) return &tensor;
    names += (names.empty() ? "" : ", ") + tensor.name;
  }
  return fail(name.empty() ? Code::kInvalidArgument : Code::kNotFound,
              fmt::format("the object holds the tensors {}: choose one with ?tensor=, or take all "
                          "of it with ?raw=true",
                          names));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return app::dump(json(shape));
}

}  // namespace

Result<std::unique_ptr<Admin>> Admin::open(AdminOptions options) {
  std::unique_ptr<Admin> admin(new Admin(std::move(options)));
  Admin* self = admin.get();
  auto server = http::Server::open({
      .host = admin->options_.host,
      .port = admin->options_.port,
      .head = [self](const RequestHead& head) { return self->admit(head); },
      .handle = [self](const Request& request) { return self->handle(request); },
      .log =
          [self](const RequestHead& head, unsigned status) {
            self->requests_total_.fetch_add(1, std::memory_order_relaxed);
            if (status >= 400) self->refused_total_.fetch_add(1, std::memory_order_relaxed);
            self->options_.log->debug(
                fmt::format("http {} {} {}", head.method, head.target.path, status));
          },
  });
  if (!server) return std::unexpected(server.error());
  admin->server_ = std::move(*server);
  return admin;
}

Admin::~Admin() {
  if (server_) server_->stop();
}

void Admin::stop() {
  server_->stop();
  const std::lock_guard lock(mutex_);
  client_.reset();  // no request is left that could use it
}

std::optional<Response> Admin::refuse_bytes(const RequestHead& head) const {
  if (options_.token.empty()) {
    return refusal(403, "permission",
                   "no token is configured: start sluiced with --token-file (a file of mode 0600) "
                   "or SLUICE_TOKEN to read, "
                   "write or remove objects over HTTP");
  }
  if (http::bearer_matches(head.authorization, options_.token)) return std::nullopt;
  Response response =
      refusal(401, "permission",
              head.authorization.empty() ? "send the header 'Authorization: Bearer <token>'"
                                         : "the bearer token is not the configured one");
  response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"sluiced\"");
  return response;
}

Admission Admin::admit(const RequestHead& head) const {
  Admission admission;
  const std::string& path = head.target.path;
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (!host_is_local(head.host)) {
    admission.refusal = refusal(403, "permission",
                                "the Host header must name this machine (localhost or 127.0.0.1)");
  } else if (path == "/livez" || path == "/readyz") {
    admission.quick = true;
    if (!reads) admission.refusal = method_refused("GET");
  } else if (path == "/metrics" || path == "/v1/stats" || path == kObjects) {
    if (!reads) admission.refusal = method_refused("GET");
  } else if (is_object(path)) {
    if (!reads && head.method != "PUT" && head.method != "DELETE") {
      admission.refusal = method_refused("GET, PUT, DELETE");
    } else {
      admission.refusal = refuse_bytes(head);
    }
    if (!admission.refusal && head.method == "PUT") {
      admission.body_bytes_max = options_.body_bytes_max;
      if (head.content_length.value_or(0) > options_.body_bytes_max) {
        admission.refusal =
            refusal(413, "too_large",
                    fmt::format("the body is larger than the {} that this daemon takes (body-max)",
                                app::format_size(options_.body_bytes_max)));
      }
    }
  } else {
    admission.refusal =
        refusal(404, "not_found",
                "known addresses: /livez /readyz /metrics /v1/stats /v1/objects /v1/objects/<key>");
  }
  return admission;
}

Response Admin::handle(const Request& request) {
  const http::Target& target = request.head.target;
  if (target.path == "/livez") return livez();
  if (target.path == "/readyz") return readyz();
  if (target.path == "/metrics") return metrics();
  if (target.path == "/v1/stats") return stats();
  if (target.path == kObjects) return list(target);
  const auto key_text = http::percent_decode(std::string_view(target.path).substr(kObject.size()));
  if (!key_text) return refusal(key_text.error());
  if (request.head.method == "PUT") return put_object(*key_text, request.body);
  if (request.head.method == "DELETE") return delete_object(*key_text);
  return get_object(*key_text, target);
}

Response Admin::livez() const {
  const std::uint64_t age_ns = loop_age_ns(options_.health());
  if (age_ns > kLoopAgeMaxNs) {
    return json_response(503, {{"live", false}, {"loop_age_ms", age_ns / kNsPerMs}});
  }
  return json_response(200, {{"live", true}});
}

Response Admin::readyz() const {
  const store::DaemonHealth health = options_.health();
  const bool ready = health.ready && !health.draining && loop_age_ns(health) <= kLoopAgeMaxNs;
  return json_response(
      ready ? 200 : 503,
      {{"ready", ready}, {"draining", health.draining}, {"touched_share", health.touched_share}});
}

Response Admin::metrics() {
  const auto attached = client();
  if (!attached) return refusal(attached.error());
  const store::DaemonHealth health = options_.health();
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body =
      prometheus_text((*attached)->stats(), (*attached)->clients(),
                      {.ready = health.ready && !health.draining,
                       .draining = health.draining,
                       .touched_share = health.touched_share,
                       .loop_age_seconds = static_cast<double>(loop_age_ns(health)) / 1e9,
                       .late_requests_total = health.late_requests,
                       .http_requests_total = requests_total_.load(std::memory_order_relaxed),
                       .http_refused_total = refused_total_.load(std::memory_order_relaxed),
                       .log_lines_lost_total = options_.log->lines_lost()});
  return response;
}

Response Admin::stats() {
  const auto attached = client();
  if (!attached) return refusal(attached.error());
  const store::DaemonHealth health = options_.health();
  json clients = json::array();
  for (const ClientInfo& info : (*attached)->clients()) clients.push_back(app::to_json(info));
  return json_response(200, {{"health",
                              {{"ready", health.ready},
                               {"draining", health.draining},
                               {"touched_share", health.touched_share},
                               {"loop_age_ms", loop_age_ns(health) / kNsPerMs}}},
                             {"arena", app::to_json((*attached)->stats())},
                             {"processes", std::move(clients)}});
}

Response Admin::list(const http::Target& target) {
  std::string prefix;
  std::uint64_t limit = kListDefault;
  for (const auto& [name, value] : target.query) {
    if (name == "prefix") {
      prefix = value;
    } else if (name == "limit") {
      const auto count = app::parse_count(value, kListMax);
      if (!count) return refusal(400, "invalid_argument", "limit: " + count.error().message);
      limit = *count;
    } else {
      return refusal(400, "invalid_argument",
                     fmt::format("unknown parameter '{}': prefix and limit are known", name));
    }
  }
  const auto attached = client();
  if (!attached) return refusal(attached.error());
  json objects = json::array();
  // One more than asked for tells whether the answer is the whole of it.
  auto found = (*attached)->list(prefix, static_cast<std::size_t>(limit) + 1);
  const bool more = found.size() > limit;
  if (more) found.resize(static_cast<std::size_t>(limit));
  for (const ObjectInfo& object : found) objects.push_back(app::to_json(object));
  return json_response(200, {{"objects", std::move(objects)}, {"more", more}});
}

Response Admin::get_object(const std::string& key_text, const http::Target& target) {
  std::string tensor_name;
  bool raw = false;
  for (const auto& [name, value] : target.query) {
    if (name == "tensor") {
      tensor_name = value;
    } else if (name == "raw") {
      const auto flag = app::parse_bool(value);
      if (!flag) return refusal(400, "invalid_argument", "raw: " + flag.error().message);
      raw = *flag;
    } else {
      return refusal(400, "invalid_argument",
                     fmt::format("unknown parameter '{}': tensor and raw are known", name));
    }
  }
  const auto key = ObjectKey::from_text(key_text);
  if (!key) return refusal(key.error());
  const auto attached = client();
  if (!attached) return refusal(attached.error());
  auto lease = (*attached)->get(*key);
  if (!lease) return refusal(lease.error());
  // Shared with the answer that is still to be written: the bytes are sent from the arena, not from
  // a copy.
  const auto owner = std::make_shared<Lease>(std::move(*lease));
  Response response;
  response.content_type = "application/octet-stream";
  response.owner = owner;
  response.view = owner->bytes();
  if (raw) return response;
  const auto tensors = owner->tensors();
  if (!tensors) return refusal(tensors.error());
  const auto chosen = choose_tensor(*tensors, tensor_name);
  if (!chosen) return refusal(chosen.error());
  const TensorView& tensor = **chosen;
  response.view = owner->bytes().subspan(tensor.data_offset, tensor.data_bytes);
  response.headers.emplace_back("X-Sluice-Dtype", std::string(name(tensor.spec.dtype)));
  response.headers.emplace_back("X-Sluice-Shape", shape_text(tensor.spec.shape));
  return response;
}

Response Admin::put_object(const std::string& key_text, const std::string& body) {
  if (body.empty())
    return refusal(400, "invalid_argument", "the body is empty: an object has at least one byte");
  const auto key = ObjectKey::from_text(key_text);
  if (!key) return refusal(key.error());
  const auto attached = client();
  if (!attached) return refusal(attached.error());
  const TensorInput tensor{
      .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(body.size())}},
      .data = std::as_bytes(std::span(body))};
  const auto outcome = (*attached)->put(*key, std::span(&tensor, 1));
  if (!outcome) return refusal(outcome.error());
  return json_response(
      *outcome == PutOutcome::kPublished ? 201 : 200,
      {{"key", key->text()}, {"outcome", sluice::name(*outcome)}, {"data_bytes", body.size()}});
}

Response Admin::delete_object(const std::string& key_text) {
  const auto key = ObjectKey::from_text(key_text);
  if (!key) return refusal(key.error());
  const auto attached = client();
  if (!attached) return refusal(attached.error());
  if (const auto removed = (*attached)->remove(*key); !removed) return refusal(removed.error());
  return json_response(200, {{"key", key->text()}, {"removed", true}});
}

Result<std::shared_ptr<Client>> Admin::client() {
  const std::lock_guard lock(mutex_);
  if (client_) return client_;
  ClientOptions options;
  options.directory = options_.directory;
  options.label = "sluiced admin";
  options.grant_ahead_bytes =
      0;  // an operator's put may wait; it must not hold memory that engines need
  options.populate_bytes_max = 0;
  auto attached = Client::attach(options);
  if (!attached) return std::unexpected(attached.error());
  client_ = std::move(*attached);
  return client_;
}

}  // namespace sluice::daemon

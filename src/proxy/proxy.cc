#include "proxy/proxy.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "http/auth.h"
#include "http/target.h"
#include "proxy/exposition.h"
#include "proxy/flow.h"
#include "proxy/registration.h"

namespace sluice::proxy {
namespace {

using boost::asio::awaitable;

constexpr std::string_view kInstances = "/v1/instances";
constexpr std::string_view kAllReady = "/readyz?all";  // for who starts a whole deployment
constexpr std::uint64_t kRefusedBodyBytesMax = 64 * 1024;
constexpr std::uint64_t kAdminBodyBytesMax = 1 << 20;  // read, so that it can be refused by name

std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

std::string plain(std::string_view text) {
  return std::string(text) + "\n";
}

awaitable<void> answer_text(http::Exchange& exchange, unsigned status, std::string text,
                            std::string type = "text/plain; charset=utf-8") {
  std::vector<http::Header> headers;
  headers.emplace_back("Content-Type", std::move(type));
  const auto sent = co_await exchange.answer(status, std::move(headers), std::move(text));
  static_cast<void>(sent);  // the client may have left
}

awaitable<void> answer_json(http::Exchange& exchange, unsigned status, std::string text) {
  co_await answer_text(exchange, status, std::move(text), "application/json");
}

OpenAiError not_found() {
  return {.status = 404, .message = "there is nothing at this address", .code = "not_found"};
}

OpenAiError wrong_method(std::string_view allowed) {
  return {.status = 405,
          .message = fmt::format("this address takes {}", allowed),
          .code = "method_not_allowed"};
}

awaitable<void> answer_wrong_method(http::Exchange& exchange, std::string_view allowed) {
  std::vector<http::Header> headers;
  headers.emplace_back("Allow", std::string(allowed));
  const OpenAiError error = wrong_method(allowed);
  co_await answer_error(exchange, error, std::move(headers));
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// Whether an engine reads this path as we do: no segments that mean another place, and no plain
// characters in disguise.
bool is_plain_path(std::string_view path) {
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);  // the slash
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view segment = rest.substr(0, end);
    rest.remove_prefix(end);
    if (segment.empty() || segment == "." || segment == "..") return false;
    const auto decoded = http::percent_decode(segment);
    if (!decoded) return false;
    // The two digits of an escape are plain characters themselves; one that stands for a plain
    // character shows as one too many.
    const auto plain = [](std::string_view text) {
      return std::ranges::count_if(text, is_unreserved);
    };
    const auto escapes = std::ranges::count(segment, '%');
    if (plain(*decoded) != plain(segment) - 2 * escapes) return false;
  }
  return true;
}

bool is_under(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

}  // namespace

Result<std::unique_ptr<Proxy>> Proxy::open(ProxyOptions options) {
  std::unique_ptr<Proxy> proxy(new Proxy());
  proxy->beyond_loopback_ = options.beyond_loopback;
  if (options.log) {
    options.pools.changed = [log = std::move(options.log)](const Instance& instance, bool usable) {
      log(fmt::format("the {} engine at {} is {}", kRoles[instance.spec.role].name,
                      instance.spec.endpoint.text(),
                      usable ? "used again" : "out of use: it does not answer"));
    };
  }
  proxy->core_ = std::make_unique<Core>(std::move(options.settings), std::move(options.pools));
  Core& core = *proxy->core_;
  core.access_log = std::move(options.access_log);
  core.log_lines_lost = std::move(options.log_lines_lost);
  for (InstanceSpec& spec : options.instances) {
    if (const auto added = core.director.add(std::move(spec)); !added) {
      return std::unexpected(added.error());
    }
  }
  for (std::size_t i = 0; i < options.threads; ++i) {
    proxy->workers_.push_back(std::make_unique<Worker>(core, i));
  }
  auto front =
      http::Front::open({.host = options.host,
                         .port = options.port,
                         .threads = options.threads,
                         .limits = options.limits,
                         .handle =
                             [self = proxy.get()](std::size_t thread, http::Exchange& exchange) {
                               return self->handle(thread, exchange);
                             },
                         .log =
                             [&core](std::string_view what, unsigned status) {
                               if (core.access_log) {
                                 core.access_log(fmt::format(R"({{"status":{},"cause":{}}})",
                                                             status, json_string(what)));
                               }
                             }});
  if (!front) return std::unexpected(front.error());
  proxy->front_ = std::move(*front);
  for (std::size_t i = 0; i < options.threads; ++i) {
    proxy->workers_[i]->attach(proxy->front_->context(i));
  }
  proxy->prober_ = std::make_unique<HealthProber>(core, *proxy->workers_.front());
  if (options.arena) core.features = std::make_unique<FeatureDirectory>(std::move(*options.arena));
  return proxy;
}

Proxy::~Proxy() {
  stop();
  for (const auto& worker : workers_) worker->close();
  front_.reset();  // before the workers and the core that its coroutines use
}

void Proxy::start() {
  prober_->start();
  front_->start();
}

bool Proxy::drain(std::chrono::milliseconds timeout) {
  core_->draining = true;
  return front_->drain(timeout);
}

void Proxy::stop() {
  core_->draining = true;
  if (front_ != nullptr) front_->stop();
}

bool Proxy::ready() const {
  if (core_->draining) return false;
  return std::ranges::any_of(core_->director.list(), [](const InstanceView& view) {
    return view.confirmed && std::ranges::count(kAnswerRoles, view.instance->spec.role) != 0;
  });
}

bool Proxy::all_ready() const {
  const auto listed = core_->director.list();
  return ready() && std::ranges::all_of(listed, &InstanceView::confirmed);
}

// Health is open to all; a token guards the rest when clients come from other machines, and always
// the list of engines: who may change it could read everybody's requests.
std::optional<OpenAiError> Proxy::refuse(const http::ExchangeHead& head,
                                         std::string_view path) const {
  if (path == "/livez" || path == "/readyz") return std::nullopt;
  const Settings& settings = core_->settings;
  const bool own = is_under(path, kInstances);
  if (own && settings.token.empty()) {
    return OpenAiError{.status = 403,
                       .message = "no token is configured, so nobody may see or change instances",
                       .code = "no_token"};
  }
  const bool needed = own || beyond_loopback_ || settings.token_always;
  if (!needed) return std::nullopt;
  if (http::bearer_matches(head.header("authorization"), settings.token)) return std::nullopt;
  return OpenAiError{.status = 401,
                     .message = "a bearer token is needed, and this is not the right one",
                     .code = "invalid_api_key"};
}

awaitable<void> Proxy::handle(std::size_t thread, http::Exchange& exchange) {
  Worker& worker = *workers_[thread];
  const http::ExchangeHead& head = exchange.head();
  const std::string_view path = path_of(head.target);
  if (const auto refusal = refuse(head, path)) {
    worker.meter.refused(Cause::kUnauthorized);
    // A small body is read, so that the connection can go on; a large one costs the connection.
    if (head.content_length.value_or(0) <= kRefusedBodyBytesMax) {
      const auto ignored = co_await exchange.read_body(kRefusedBodyBytesMax);
      static_cast<void>(ignored);
    }
    std::vector<http::Header> headers;
    if (refusal->status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
    co_await answer_error(exchange, *refusal, std::move(headers));
    co_return;
  }
  if (!is_plain_path(path)) {
    worker.meter.refused(Cause::kInvalid);
    const OpenAiError error = not_found();
    co_await answer_error(exchange, error);
    co_return;
  }
  if (is_under(path, kInstances)) {
    co_await serve_instances(exchange, path);
    co_return;
  }
  if (!path.starts_with("/v1/")) {
    co_await serve_own(worker, exchange, path);
    co_return;
  }
  const bool chat = path == "/v1/chat/completions";
  const bool completions = path == "/v1/completions";
  if ((chat || completions) && head.method != "POST") {
    co_await answer_wrong_method(exchange, "POST");
    co_return;
  }
  const Api api = chat ? Api::kChat : completions ? Api::kCompletions : Api::kOther;
  co_await serve_request(*core_, worker, exchange, api);
}

awaitable<void> Proxy::serve_own(Worker& worker, http::Exchange& exchange, std::string_view path) {
  const bool known = path == "/livez" || path == "/readyz" || path == "/metrics";
  if (!known) {
    worker.meter.refused(Cause::kInvalid);
    const OpenAiError error = not_found();
    co_await answer_error(exchange, error);
    co_return;
  }
  const std::string& method = exchange.head().method;
  if (method != "GET" && method != "HEAD") {
    co_await answer_wrong_method(exchange, "GET, HEAD");
    co_return;
  }
  if (path == "/metrics") {
    co_await answer_text(exchange, 200, metrics(), "text/plain; version=0.0.4; charset=utf-8");
  } else if (path == "/livez") {
    co_await answer_text(exchange, 200, plain("alive"));
  } else if (exchange.head().target == kAllReady && !all_ready()) {
    co_await answer_text(exchange, 503, plain("not every engine is healthy yet"));
  } else if (ready()) {
    co_await answer_text(exchange, 200, plain("ready"));
  } else {
    std::string why = plain(core_->draining ? "draining" : "no engine that answers is healthy");
    co_await answer_text(exchange, 503, std::move(why));
  }
}

awaitable<void> Proxy::serve_instances(http::Exchange& exchange, std::string_view path) {
  const std::string& method = exchange.head().method;
  const bool whole = path == kInstances;
  if (whole && method == "GET") {
    co_await answer_json(exchange, 200, instances_json(core_->director.list()));
  } else if (whole && (method == "POST" || method == "DELETE")) {
    auto body = co_await exchange.read_body(kAdminBodyBytesMax);
    if (!body) co_return;  // the server says why
    auto spec = parse_registration(body->text(), core_->settings.allow_remote_engines);
    if (!spec) {
      co_await answer_error(exchange, spec.error());
    } else if (method == "POST") {
      co_await add_instance(exchange, std::move(*spec));
    } else {
      const auto id = core_->director.find(spec->role, spec->endpoint);
      co_await remove_instance(exchange, id.value_or(0));
    }
  } else if (!whole && method == "DELETE") {
    const std::string_view digits = path.substr(kInstances.size() + 1);
    sched::InstanceId id = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) id = 0;
    co_await remove_instance(exchange, id);
  } else {
    const std::string_view allowed = whole ? "GET, POST, DELETE" : "DELETE";
    co_await answer_wrong_method(exchange, allowed);
  }
}

awaitable<void> Proxy::add_instance(http::Exchange& exchange, InstanceSpec spec) {
  const auto added = core_->director.add(std::move(spec));
  if (added) {
    prober_->wake();
    std::string text = fmt::format(R"({{"id":{}}})", *added);
    co_await answer_json(exchange, 201, std::move(text));
    co_return;
  }
  const OpenAiError error{.status = 507, .message = added.error().message, .code = "limit"};
  co_await answer_error(exchange, error);
}

awaitable<void> Proxy::remove_instance(http::Exchange& exchange, sched::InstanceId id) {
  if (core_->director.remove(id)) {
    std::string text = fmt::format(R"({{"id":{},"removed":true}})", id);
    co_await answer_json(exchange, 200, std::move(text));
    co_return;
  }
  const OpenAiError error{
      .status = 404, .message = "no such instance is registered", .code = "not_found"};
  co_await answer_error(exchange, error);
}

std::string Proxy::metrics() const {
  std::vector<const Meter*> meters;
  meters.reserve(workers_.size());
  for (const auto& worker : workers_) meters.push_back(&worker->meter);
  ProxySample sample{.ready = ready(),
                     .draining = core_->draining,
                     .connections = front_->connections(),
                     .encodes_in_flight = core_->encodes.size(),
                     .log_lines_lost = core_->log_lines_lost ? core_->log_lines_lost() : 0};
  for (std::size_t role = 0; role < kRoles.size(); ++role) {
    sample.pools[role] = core_->director.pool(role);
  }
  sample.has_arena = core_->features != nullptr;
  if (sample.has_arena) sample.arena = core_->features->counts();
  return metrics_text(meters, sample);
}

}  // namespace sluice::proxy

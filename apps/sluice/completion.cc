// completion.cc: `sluice completion bash|zsh|fish`: a completion script made from the command
// line's own description.
#include <fmt/format.h>

#include "commands.h"
#include "common/exit_code.h"

namespace sluice::cli {
namespace {

std::string words_of(const CommandShape& command, const CommandShape& program) {
  std::string out;
  for (const auto* shape : {&command, &program}) {
    for (const auto& [flag, help] : shape->flags) out += flag + " ";
    if (&command == &program) break;
  }
  return out;
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
    text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string bash(const std::vector<CommandShape>& commands) {
  std::string names;
  for (std::size_t i = 1; i < commands.size(); ++i) names += commands[i].name + " ";
  std::string out =
      "# bash completion for sluice: source this file, or put it into "
      "/etc/bash_completion.d/sluice\n"
      "_sluice() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} command= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in\n"
      "      -*) ;;\n"
      "      *) case ' " +
      names +
      "' in *\" ${COMP_WORDS[i]} \"*) command=${COMP_WORDS[i]}; break ;; esac ;;\n"
      "    esac\n"
      "  done\n"
      "  case $command in\n";
  for (std::size_t i = 1; i < commands.size(); ++i) {
    const CommandShape& command = commands[i];
    out += fmt::format("    {})\n", command.name);
    if (command.name == "completion")
      out += "      COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$word\")); return ;;\n";
    else {
      out += fmt::format(
          "      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n",
          words_of(command, commands[0]));
      if (command.name == "stat" || command.name == "get" || command.name == "rm" ||
          command.name == "ls") {
        out +=
            "      else COMPREPLY=($(compgen -W \"$(sluice ls 2>/dev/null)\" -- \"$word\") "
            "$(compgen -f -- \"$word\")); fi ;;\n";
      } else {
        out += "      else COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n";
      }
    }
  }
  out += fmt::format("    *) COMPREPLY=($(compgen -W '{}{}' -- \"$word\")) ;;\n", names,
                     words_of(commands[0], commands[0]));
  return out + "  esac\n}\ncomplete -F _sluice sluice\n";
}

std::string zsh(const std::vector<CommandShape>& commands) {
  std::string out =
      "#compdef sluice\n"
      "# zsh completion for sluice: put this file as _sluice into a folder of $fpath\n"
      "_sluice() {\n"
      "  local -a commands flags\n"
      "  commands=(\n";
  for (std::size_t i = 1; i < commands.size(); ++i)
    out += fmt::format("    {}\n", quoted(commands[i].name + ":" + commands[i].help));
  out += "  )\n  local command=${words[(r)(";
  for (std::size_t i = 1; i < commands.size(); ++i) out += (i > 1 ? "|" : "") + commands[i].name;
  out += ")]}\n  case $command in\n";
  for (std::size_t i = 1; i < commands.size(); ++i) {
    out +=
        fmt::format("    {}) flags=({}); ", commands[i].name, words_of(commands[i], commands[0]));
    out += commands[i].name == "completion"
               ? "compadd bash zsh fish ;;\n"
               : "if [[ $PREFIX == -* ]]; then compadd -- $flags; else _files; fi ;;\n";
  }
  out += fmt::format(
      "    *) flags=({}); if [[ $PREFIX == -* ]]; then compadd -- $flags; else _describe command "
      "commands; fi ;;\n",
      words_of(commands[0], commands[0]));
  return out + "  esac\n}\n_sluice \"$@\"\n";
}

std::string fish(const std::vector<CommandShape>& commands) {
  std::string names;
  for (std::size_t i = 1; i < commands.size(); ++i) names += (i > 1 ? " " : "") + commands[i].name;
  std::string out =
      "# fish completion for sluice: put this file into ~/.config/fish/completions/sluice.fish\n";
  const auto flag_lines = [&](const CommandShape& shape, const std::string& condition) {
    for (const auto& [flag, help] : shape.flags) {
      if (!flag.starts_with("--")) continue;
      out += fmt::format("complete -c sluice {}-l {} -d {}\n", condition, flag.substr(2),
                         quoted(help));
    }
  };
  flag_lines(commands[0], "");
  for (std::size_t i = 1; i < commands.size(); ++i) {
    out +=
        fmt::format("complete -c sluice -n 'not __fish_seen_subcommand_from {}' -f -a {} -d {}\n",
                    names, commands[i].name, quoted(commands[i].help));
    flag_lines(commands[i], fmt::format("-n '__fish_seen_subcommand_from {}' ", commands[i].name));
  }
  out += "complete -c sluice -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  return out;
}

}  // namespace

int run(const Global& global, const CompletionCommand& command) {
  const Output out(global.look);
  std::string script = command.shell == "bash"  ? bash(command.commands)
                       : command.shell == "zsh" ? zsh(command.commands)
                                                : fish(command.commands);
  script.pop_back();  // line() ends it
  out.line(script);
  return app::kExitOk;
}

}  // namespace sluice::cli

"""What shells and file systems say in other languages, as they say it in English."""

from __future__ import annotations

import re

_PHRASES = {
    "command not found": (
        "commande introuvable|commande non trouvée|befehl nicht gefunden|kommando nicht gefunden|orden no encontrada"
        "|no se encontró la orden|comando no encontrado|comando não encontrado|comando non trovato|команда не найдена"
        "|未找到命令|找不到命令|命令未找到|コマンドが見つかりません|명령어를 찾을 수 없음|명령을 찾을 수 없습니다"
        "|nie znaleziono polecenia|opdracht niet gevonden|komut bulunamadı|kommandot finns inte|příkaz nenalezen"
    ),
    "No such file or directory": (
        "aucun fichier ou dossier de ce (?:nom|type)|datei oder verzeichnis nicht gefunden"
        "|no existe el (?:archivo|fichero) o el directorio|arquivo ou diretório (?:inexistente|não encontrado)"
        "|ficheiro ou (?:pasta|diret[óo]ri[oa]) inexistente|file o directory non esistente"
        "|нет такого файла или каталога|没有那个文件或目录|沒有此一檔案或目錄"
        "|そのようなファイルやディレクトリはありません"
        "|그런 파일이나 디렉터리가 없습니다|nie ma takiego pliku ani katalogu|bestand of map bestaat niet"
        "|böyle bir dosya ya da dizin yok|filen eller katalogen finns inte|adresář nebo soubor neexistuje"
    ),
    "Permission denied": (
        "permission non accordée|accès refusé|keine berechtigung|zugriff verweigert|permiso denegado"
        "|permissão (?:negada|recusada)|permesso negato|отказано в доступе|权限不够|拒绝访问|權限不夠|許可がありません"
        "|アクセスが拒否されました|허가 거부|brak dostępu|toegang geweigerd|erişim engellendi|åtkomst nekas"
    ),
    "Is a directory": (
        "est un dossier|ist ein verzeichnis|es un directorio|é um diretório|è una directory|это каталог|是一个目录"
        "|ディレクトリです|디렉터리입니다"
    ),
    "Operation not permitted": (
        "opération non permise|die operation ist nicht erlaubt|operación no permitida|operação não permitida"
        "|операция не позволена|不允许的操作|許可されていない操作です"
    ),
    "cannot access": "impossible d'accéder à|zugriff auf|no se puede acceder a|невозможно получить доступ к|无法访问"
    "|にアクセスできません",
    "cannot open": "impossible d'ouvrir|kann nicht geöffnet werden|no se puede abrir|não foi possível abrir|не"
    " удалось открыть|无法打开",
    "syntax error": "erreur de syntaxe"
    "|syntaxfehler|error sintáctico|erro de sintaxe|синтаксическая ошибка|语法错误|構文エラー",
    "is not recognized as an internal or external command": (
        "n.est pas reconnu en tant que commande interne|ist entweder falsch geschrieben|no se reconoce como un"
        " comando interno"
        "|não é reconhecido como um comando interno|不是内部或外部命令|は、内部コマンドまたは外部コマンド"
        "|не является внутренней или внешней"
    ),
    "The system cannot find the file specified": (
        "le fichier spécifié est introuvable|das system kann die angegebene datei nicht finden"
        "|el sistema no puede encontrar el archivo especificado|o sistema não pode encontrar o arquivo especificado"
        "|не удается найти указанный файл|系统找不到指定的文件|指定されたファイルが見つかりません"
    ),
    "line": r"\b(?:ligne|zeile|línea|linea|linha|строка|regel|linia|rad)(?= \d+ ?:)|行(?= ?\d+ ?:)",
}
_TABLE = tuple(
    (english, re.compile(f" ?(?:{words})" if english == "line" else words, re.I)) for english, words in _PHRASES.items()
)


_STEMS = (
    "introuvable aucun permission non impossible nicht keine zugriff verzeichnis syntaxfehler encontrad existe permiso "
    "negad negato recusad esistente trovato dossier directorio inexistente sintaxis sintaxe syntaxe reconn reconoc "
    "ligne zeile linea linha regel bestand opdracht toegang niet plik polecenia dosya komut finns rad linia erlaubt"
).split()
"""One of these is in every phrase that is written in plain ASCII."""
_LONG = 600


def in_english(line: str) -> str:
    """A line of a shell or a program with its well-known complaints in English."""
    if len(line) > _LONG or (line.isascii() and not any(stem in line.lower() for stem in _STEMS)):
        return line
    for english, pattern in _TABLE:
        line = pattern.sub(f" {english}" if english == "line" else english, line)
    return re.sub(r"(?<=\S) ?[:：] ?(?=\S)", ": ", line)

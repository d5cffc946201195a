"""Files that studies name: found from the study's folder or by the environment, or said why not."""

from workbench.studies.experiments.resources import find, sha256


def test_a_file_is_found_or_the_reason_said(tmp_path, monkeypatch):
    file = tmp_path / "own.rules"
    file.write_text("")
    assert find("own.rules", tmp_path) == file
    assert find("../none.rules", tmp_path) == "../none.rules: there is no such file"
    monkeypatch.delenv("ELSEWHERE", raising=False)
    assert (
        find("${ELSEWHERE}/own.rules", tmp_path)
        == "${ELSEWHERE}/own.rules: ELSEWHERE is not set in the environment"
    )
    monkeypatch.setenv("ELSEWHERE", str(tmp_path))
    assert find("${ELSEWHERE}/own.rules", tmp_path / "other") == file
    assert sha256(file).startswith("e3b0c442")

from workbench.faces.views.markup import page_of, paragraph, section, table


def test_every_text_is_escaped():
    assert table(("<i>",), [("<b>",)]) == (
        "<table><thead><tr><th>&lt;i&gt;</th></tr></thead><tbody>\n<tr><td>&lt;b&gt;</td></tr>\n"
        "</tbody></table>"
    )
    assert paragraph("a & b", "failed") == '<p class="failed">a &amp; b</p>'
    assert section("<x>", "<p>body</p>") == "<h2>&lt;x&gt;</h2>\n<p>body</p>"
    page = page_of("<t>", "<p>body</p>")
    assert "<title>&lt;t&gt;</title>" in page
    assert "\n<p>body</p>\n" in page


def test_columns_have_the_classes_of_the_style():
    assert '<tr><td>a</td><td class="number">1</td></tr>' in table(("", "n"), [("a", 1)], ("", "number"))


def test_rows_beyond_the_limit_are_counted():
    text = table(("n",), [(k,) for k in range(50)], most=40)
    assert text.count("<tr><td>") == 40
    assert text.endswith("<p>10 more of 50</p>")
